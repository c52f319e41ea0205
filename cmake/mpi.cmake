# libpal_mpi.so, which several ranks talk by: made where MPI is found, opened where a launcher has
# started them (core/ranks/launch.cc). Nothing else is linked with MPI.
find_package(MPI QUIET COMPONENTS CXX)
# What pal and the plug-in call each other by has one layout: its header is part of the name.
file(SHA1 ${CMAKE_SOURCE_DIR}/core/ranks/group.h open_group)
string(SUBSTRING ${open_group} 0 12 open_group)
set(open_group pal_open_group_${open_group})
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS core/ranks/group.h)
target_compile_definitions(pal_core PRIVATE PAL_OPEN_GROUP="${open_group}")
if(MPI_CXX_FOUND)
  add_library(pal_mpi MODULE plugins/mpi_group.cc)
  target_link_libraries(pal_mpi PRIVATE MPI::MPI_CXX)
  # MPI's C++ classes, which no standard has any more, are left out.
  target_compile_definitions(pal_mpi PRIVATE PAL_OPEN_GROUP=${open_group}
    OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  if(TARGET pal)
    add_dependencies(pal pal_mpi)
  endif()
  install(TARGETS pal_mpi LIBRARY DESTINATION lib/palimpsest)
endif()
