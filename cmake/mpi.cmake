# libpal_mpi.so, which several ranks talk by: made where MPI is found, opened where a launcher has
# started them (core/ranks/launch.cc). Nothing else is linked with MPI.
find_package(MPI QUIET COMPONENTS CXX)
if(MPI_CXX_FOUND)
  add_library(pal_mpi MODULE plugins/mpi_group.cc)
  target_link_libraries(pal_mpi PRIVATE MPI::MPI_CXX)
  # MPI's C++ classes, which no standard has any more, are left out.
  target_compile_definitions(pal_mpi PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  if(TARGET pal)
    add_dependencies(pal pal_mpi)
  endif()
  install(TARGETS pal_mpi LIBRARY DESTINATION lib/palimpsest)
endif()
