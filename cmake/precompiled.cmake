# Precompiled headers: what nearly every file includes is parsed once a library, which takes a cold build
# from 135 to 120 seconds on two cores. Files still name all that they use: the CUDA build of
# continuous integration compiles without these.
option(PAL_PCH "precompile the headers that nearly every file includes (GCC)" ON)

function(pal_precompile name)
  get_target_property(kind pal_${name} TYPE)
  if(PAL_PCH AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND kind STREQUAL STATIC_LIBRARY)
    target_precompile_headers(pal_${name} PRIVATE <algorithm> <functional> <map> <memory> <optional>
      <span> <string> <vector> ${ARGN})
    # GCC 12 no longer knows such a header for a system's, and warns of what is none inside std::string.
    target_compile_options(pal_${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds>
      $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overflow>)
  endif()
endfunction()
pal_precompile(core)
pal_precompile(ops)
pal_precompile(memory)
pal_precompile(train <filesystem> <nlohmann/json.hpp>)
