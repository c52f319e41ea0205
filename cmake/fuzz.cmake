# -DPAL_FUZZ=ON, with clang: fuzz_config and the others of tests/fuzz/fuzz.h, with libFuzzer and the
# sanitizers. The readers' sources are instrumented, and for addresses memory, which makes the plans that a
# front's file names; what else they name comes from the libraries as they are. scripts/fuzz builds and
# runs them.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
  message(FATAL_ERROR "PAL_FUZZ needs clang: add -DCMAKE_CXX_COMPILER=clang++")
endif()
file(GLOB sources ${CMAKE_SOURCE_DIR}/train/config/*.cc ${CMAKE_SOURCE_DIR}/train/run_files/*.cc
  ${CMAKE_SOURCE_DIR}/data/*.cc ${CMAKE_SOURCE_DIR}/models/*_options.cc ${CMAKE_SOURCE_DIR}/tests/fuzz/*.cc)
list(REMOVE_ITEM sources ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_test.cc)
foreach(file core/paths tests/support/random_network train/commands/budget_file train/commands/place_csv
             train/loop/front_cache train/loop/front_text train/loop/program_fingerprint
             train/loop/trainer_state train/report/html_page train/report/report_chart
             train/report/report_html train/report/run_curves)
  list(APPEND sources ${CMAKE_SOURCE_DIR}/${file}.cc)
endforeach()
add_library(fuzz_readers STATIC EXCLUDE_FROM_ALL ${sources})
set(sanitizers -fsanitize=fuzzer-no-link,address,undefined,float-cast-overflow)
target_compile_options(fuzz_readers PUBLIC ${sanitizers} -fno-sanitize-recover=all -g1)
target_link_libraries(fuzz_readers PUBLIC pal_models pal_memory
  sentencepiece::sentencepiece pal::sound yaml-cpp spdlog::spdlog ${UTF8PROC_LIBRARY} ZLIB::ZLIB)
target_compile_options(pal_memory PRIVATE -fsanitize=address -O1 -g1)
target_compile_definitions(fuzz_readers PUBLIC PAL_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
# Kernels and models hardly run here, and take the longest to compile. Of a model's files those that
# are instrumented too must not come with others.
target_compile_options(pal_ops PRIVATE -O1)
target_compile_options(pal_models PRIVATE -O1)
set_target_properties(pal_models PROPERTIES UNITY_BUILD OFF)
# stb_image copies no bytes to nowhere for a PNG whose first data chunk is empty.
set_source_files_properties(${CMAKE_SOURCE_DIR}/data/image.cc PROPERTIES
  COMPILE_OPTIONS -fno-sanitize=nonnull-attribute)

set(list ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
file(STRINGS ${list} targets REGEX "^FuzzTarget fuzz_")
add_custom_target(fuzzers)
foreach(target ${targets})
  string(REGEX REPLACE "^FuzzTarget (fuzz_[a-z_]+).*" "\\1" target "${target}")
  add_executable(${target} EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/fuzz/libfuzzer/main.cc)
  target_compile_definitions(${target} PRIVATE PAL_FUZZ_TARGET=${target})
  target_link_libraries(${target} fuzz_readers)
  target_link_options(${target} PRIVATE -fsanitize=fuzzer,address,undefined)
  add_dependencies(fuzzers ${target})
endforeach()
