# oneDNN as dnnl::dnnl. Debian's own dnnl-config.cmake asks for the OpenCL headers, which only
# its GPU interface (dnnl_ocl.hpp) needs; this finds the library without them.
find_path(DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
mark_as_advanced(DNNL_INCLUDE_DIR DNNL_LIBRARY)
add_library(dnnl::dnnl UNKNOWN IMPORTED)
set_target_properties(dnnl::dnnl PROPERTIES
  IMPORTED_LOCATION ${DNNL_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
