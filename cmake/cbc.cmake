# CBC's C interface as cbc::cbc, for the tests whose oracle is an integer program.
find_path(CBC_INCLUDE_DIR Cbc_C_Interface.h PATH_SUFFIXES coin REQUIRED)
find_library(CBC_SOLVER_LIBRARY CbcSolver REQUIRED)
mark_as_advanced(CBC_INCLUDE_DIR CBC_SOLVER_LIBRARY)
add_library(cbc::cbc UNKNOWN IMPORTED)
set_target_properties(cbc::cbc PROPERTIES
  IMPORTED_LOCATION ${CBC_SOLVER_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${CBC_INCLUDE_DIR})
