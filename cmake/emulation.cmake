# test_emulation: the CUDA sources as C++, on the emulated GPU of tests/emulation; pal_emulated, the
# program on it. In a CUDA build the operators have their real kernels, and one program cannot have
# both.
file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/core/*.cu
  ${CMAKE_SOURCE_DIR}/ops/*.cu)
list(REMOVE_ITEM kernels ${CMAKE_SOURCE_DIR}/core/cuda/libraries.cu  # tests/emulation/cublaslt.cc
  ${CMAKE_SOURCE_DIR}/core/cuda/cudnn_library.cu)  # tests/emulation/cudnn.cc
include(cmake/rooms.cmake)
pal_rooms(emulated cc ${kernels})
# nvcc's own pragmas.
set_source_files_properties(${emulated} ${CMAKE_SOURCE_DIR}/tests/emulation/mma.cc
  ${CMAKE_SOURCE_DIR}/tests/emulation/mma_test.cc
  PROPERTIES COMPILE_OPTIONS "-Wno-unknown-pragmas")
# Each access of a kernel calls tests/emulation/memory.cc first, by way of what GCC does for the
# address sanitizer of an operating system's kernel. Sanitizers of the program's own exclude it.
option(PAL_EMULATION_CHECKS "each access of an emulated kernel is checked (GCC)" ON)
if(PAL_EMULATION_CHECKS AND NOT PAL_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(checked -fsanitize=kernel-address --param=asan-stack=0 --param=asan-globals=0
    --param=asan-instrumentation-with-call-threshold=0)
  set(with_kernels ${emulated})  # and the tests that have some of their own
  foreach(stem machine memory counting)
    list(APPEND with_kernels ${CMAKE_SOURCE_DIR}/tests/emulation/${stem}_test.cc)
  endforeach()
  set_source_files_properties(${with_kernels} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  set_property(SOURCE ${with_kernels} APPEND PROPERTY COMPILE_OPTIONS ${checked})
  set_property(SOURCE ${CMAKE_SOURCE_DIR}/tests/emulation/memory.cc
    ${CMAKE_SOURCE_DIR}/tests/emulation/memory_test.cc ${CMAKE_SOURCE_DIR}/tests/emulation/counting_test.cc
    ${CMAKE_SOURCE_DIR}/tests/emulation/elements_test.cc
    APPEND PROPERTY COMPILE_DEFINITIONS PAL_EMULATION_CHECKS)
endif()
set(machine)
foreach(stem emulation memory runtime counting mma cublaslt cudnn cudnn_graph
             cudnn_graph_descriptor cudnn_rnn cudnn_layer runtime_memory)
  list(APPEND machine ${CMAKE_SOURCE_DIR}/tests/emulation/${stem}.cc)
endforeach()
add_library(pal_emulated_gpu OBJECT ${emulated} ${machine})
target_include_directories(pal_emulated_gpu BEFORE PUBLIC ${CMAKE_SOURCE_DIR}/tests/emulation/include)
target_link_libraries(pal_emulated_gpu PUBLIC pal_ops PRIVATE GTest::gtest)  # of the headers that tests share
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/emulation/*.cc)
list(REMOVE_ITEM sources ${machine} ${CMAKE_SOURCE_DIR}/tests/emulation/nccl.cc)
foreach(stem ops/generic/checks ops/generic/rows ops/generic/structure train/translation/golden_test
             train/images/golden_test train/speech/golden_test)  # whole steps beside PyTorch's: device auto finds the emulated GPU
  list(APPEND sources ${CMAKE_SOURCE_DIR}/tests/${stem}.cc)
endforeach()
add_executable(test_emulation ${sources})
target_link_libraries(test_emulation pal_emulated_gpu pal_test_support pal_train pal_test_main)
target_compile_options(test_emulation PRIVATE -O1)
pal_precompile(test_emulation REUSE_FROM pal_test_support)
pal_precompile(pal_emulated_gpu <filesystem> <nlohmann/json.hpp> <gtest/gtest.h>)
add_executable(pal_emulated ${CMAKE_SOURCE_DIR}/train/main.cc)
target_link_libraries(pal_emulated pal_emulated_gpu pal_train)
# The benchmark of steps on it, for a rehearsal of scripts/gpu-check.
add_executable(bench_step_emulated ${CMAKE_SOURCE_DIR}/bench/step_bench.cc)
target_link_libraries(bench_step_emulated pal_emulated_gpu pal_train)
target_compile_definitions(test_emulation PRIVATE PAL_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
  PAL_BINARY="$<TARGET_FILE:pal_emulated>" PAL_EMULATED_LIBRARIES="${CMAKE_BINARY_DIR}/emulated")
# libnccl.so.2 as ranks on emulated GPUs open it, one that is too old, and one that lacks functions.
# What they use of the emulated GPU is the program's.
foreach(kind whole old lacking)
  add_library(nccl_${kind} MODULE ${CMAKE_SOURCE_DIR}/tests/emulation/nccl.cc)
  target_include_directories(nccl_${kind} BEFORE PRIVATE ${CMAKE_SOURCE_DIR}/tests/emulation/include)
  set_target_properties(nccl_${kind} PROPERTIES PREFIX "" OUTPUT_NAME libnccl SUFFIX .so.2
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/emulated/${kind})
  add_dependencies(test_emulation nccl_${kind})
endforeach()
target_compile_definitions(nccl_old PRIVATE PAL_NCCL_CODE=2804)
target_compile_definitions(nccl_lacking PRIVATE PAL_NCCL_LACKS)
set_target_properties(test_emulation pal_emulated bench_step_emulated PROPERTIES ENABLE_EXPORTS ON)
add_dependencies(test_emulation pal_emulated bench_step_emulated)
if(TARGET pal_mpi)
  add_dependencies(test_emulation pal_mpi)
endif()
# Chunks of the loss are no other kernels. Five steps are counted; all twelve take minutes, and are by hand.
gtest_discover_tests(test_emulation DISCOVERY_MODE PRE_TEST TEST_PREFIX emulation/
  NO_PRETTY_VALUES TEST_FILTER -*InChunks*:*KernelCounts*_f32:*KernelCounts*bert_base*
  PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive)
