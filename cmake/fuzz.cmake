# -DPAL_FUZZ=ON, with clang: fuzz_config and the others of tests/fuzz/fuzz.h, with libFuzzer and the
# sanitizers. The readers' sources alone are instrumented; what else they name comes from the libraries
# as they are.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
  message(FATAL_ERROR "PAL_FUZZ needs clang: add -DCMAKE_CXX_COMPILER=clang++")
endif()
file(GLOB sources ${CMAKE_SOURCE_DIR}/train/config/*.cc ${CMAKE_SOURCE_DIR}/models/*_options.cc
  ${CMAKE_SOURCE_DIR}/tests/fuzz/*_fuzz.cc)
foreach(stem atomic_file audio batches encoded_text features image image_binaries image_set image_transform iterator
             manifest segmenter sentencepiece text tokenizer utf8 vocabulary)
  list(APPEND sources ${CMAKE_SOURCE_DIR}/data/${stem}.cc)
endforeach()
list(APPEND sources ${CMAKE_SOURCE_DIR}/core/paths.cc
  ${CMAKE_SOURCE_DIR}/train/run_files/safetensors.cc ${CMAKE_SOURCE_DIR}/train/commands/place_csv.cc
  ${CMAKE_SOURCE_DIR}/tests/fuzz/memory_file.cc)
add_library(fuzz_readers STATIC EXCLUDE_FROM_ALL ${sources})
set(instrument -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -g1)
target_compile_options(fuzz_readers PUBLIC ${instrument})
target_link_libraries(fuzz_readers PUBLIC pal_models pal_memory
  sentencepiece::sentencepiece pal::sound yaml-cpp ZLIB::ZLIB)
target_compile_definitions(fuzz_readers PUBLIC PAL_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
add_custom_target(fuzzers)
foreach(name config vocabulary text safetensors image cifar idx sentencepiece sound mfcc manifest profile place)
  add_executable(fuzz_${name} EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/fuzz/libfuzzer/main.cc)
  target_compile_definitions(fuzz_${name} PRIVATE PAL_FUZZ_TARGET=fuzz_${name})
  target_link_libraries(fuzz_${name} fuzz_readers)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer,address,undefined)
  add_dependencies(fuzzers fuzz_${name})
endforeach()
