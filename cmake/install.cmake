# cmake --install: the program under its two names, and the files that core/paths.cc looks for.
# Libraries outside the system's folders (CUDA's) stay found after installation.
set_target_properties(pal PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS pal RUNTIME DESTINATION bin)
# Called as `train`, the program is `pal train`.
install(CODE [[
  file(CREATE_LINK pal "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/bin/train" SYMBOLIC)
  message(STATUS "Installing: $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/bin/train")]])
install(DIRECTORY configs DESTINATION share/palimpsest)
install(DIRECTORY data/samples DESTINATION share/palimpsest/data)
