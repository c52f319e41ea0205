# What shortens a build of everything; both give the same program.

# Several files of a library are compiled as one: each would read the same headers again, and compile
# the same templates. Off, a change of one file compiles that file alone.
option(PAL_UNITY "compile several files of a library as one" OFF)
if(PAL_UNITY)
  foreach(library core data memory models train)
    set_target_properties(pal_${library} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endforeach()
endif()

# Precompiled headers: what nearly every file includes is parsed once a library, and once for all
# tests. Files still name all that they use: clang compiles without these.
option(PAL_PCH "precompile the headers that nearly every file includes (GCC)" ON)

# pal_precompile(TARGET HEADERS...): these, and the common ones. pal_precompile(TARGET REUSE_FROM
# OTHER): those of another target.
function(pal_precompile target)
  if(NOT PAL_PCH OR NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU OR NOT TARGET ${target})
    return()
  endif()
  get_target_property(kind ${target} TYPE)
  get_target_property(unity ${target} UNITY_BUILD)
  if(kind STREQUAL INTERFACE_LIBRARY OR unity)
    return()
  endif()
  if(ARGV1 STREQUAL REUSE_FROM)
    target_precompile_headers(${target} REUSE_FROM ${ARGV2})
  else()
    target_precompile_headers(${target} PRIVATE <algorithm> <functional> <map> <memory> <optional>
      <span> <string> <vector> ${ARGN})
  endif()
  # GCC 12 crashes where a file is optimized otherwise than the headers were.
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    get_source_file_property(own ${source} COMPILE_OPTIONS)
    if(own MATCHES "-O[0-9s]")
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
  # GCC 12 no longer knows such a header for a system's, and warns of what is none inside std::string.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds>
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overflow>)
endfunction()
pal_precompile(pal_core)
pal_precompile(pal_ops)
pal_precompile(pal_memory)
pal_precompile(pal_train <filesystem> <nlohmann/json.hpp>)
