# test_emulation: the CUDA sources as C++, on the emulated GPU of tests/emulation. In a CUDA build the
# operators have their real kernels, and one program cannot have both.
file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/core/*.cu
  ${CMAKE_SOURCE_DIR}/ops/*.cu)
list(REMOVE_ITEM kernels ${CMAKE_SOURCE_DIR}/core/cuda/libraries.cu  # tests/emulation/cublaslt.cc
  ${CMAKE_SOURCE_DIR}/core/cuda/cudnn_library.cu)  # tests/emulation/cudnn.cc
include(cmake/rooms.cmake)
pal_rooms(emulated cc ${kernels})
# nvcc's own pragmas.
set_source_files_properties(${emulated} PROPERTIES COMPILE_OPTIONS "-Wno-unknown-pragmas")
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/emulation/*.cc)
foreach(stem ops/generic/checks ops/generic/structure train/translation/golden_test
             train/images/golden_test train/speech/golden_test)  # whole steps beside PyTorch's: device auto finds the emulated GPU
  list(APPEND sources ${CMAKE_SOURCE_DIR}/tests/${stem}.cc)
endforeach()
add_executable(test_emulation ${sources} ${emulated})
target_include_directories(test_emulation BEFORE PRIVATE ${CMAKE_SOURCE_DIR}/tests/emulation/include)
target_link_libraries(test_emulation pal_test_support pal_train pal_test_main)
pal_precompile(test_emulation REUSE_FROM pal_test_support)
target_compile_definitions(test_emulation PRIVATE PAL_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
# Chunks of the loss are no other kernels.
gtest_discover_tests(test_emulation DISCOVERY_MODE PRE_TEST TEST_PREFIX emulation/
  NO_PRETTY_VALUES TEST_FILTER -*InChunks*
  PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive)
