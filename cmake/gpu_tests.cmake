# test_gpu: every operator's CUDA kernels and whole steps on the machine's GPU, with the tests that
# run them on the emulated one, and ten steps beside PyTorch's (device auto). `./pal
# test --gpu` runs what is labelled gpu.
add_executable(test_gpu tests/emulation/attention_cores_test.cc tests/emulation/branches_test.cc
  tests/emulation/convolutions_test.cc tests/emulation/cores_steps_test.cc
  tests/emulation/corun_test.cc tests/emulation/ctc_test.cc tests/emulation/kernels_test.cc tests/emulation/op_cases.cc
  tests/emulation/one_rank_test.cc tests/emulation/ops_test.cc tests/emulation/overlap_test.cc
  tests/emulation/recurrent_steps_test.cc tests/emulation/recurrent_test.cc
  tests/emulation/shared_pool_test.cc tests/emulation/steps_nan_test.cc tests/emulation/steps_test.cc
  tests/emulation/steps_tf32_test.cc tests/emulation/turns_test.cc
  tests/gpu/lasting_errors.cc tests/gpu/own_cache.cc tests/gpu/real.cc tests/ops/generic/checks.cc tests/ops/generic/rows.cc
  tests/ops/generic/structure.cc tests/train/translation/golden_test.cc
  tests/train/images/golden_test.cc tests/train/speech/golden_test.cc)
target_link_libraries(test_gpu pal_test_support pal_train pal_test_main)
# tests/gpu/lasting_errors.cc asks the driver itself. The runtime is linked with the kernels.
target_include_directories(test_gpu SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
# In a bundle the tests' files are looked for from the folder that they are started in.
set(test_files ${CMAKE_SOURCE_DIR})
if(PAL_BUNDLE)
  set(test_files .)
endif()
target_compile_definitions(test_gpu PRIVATE PAL_SOURCE_DIR="${test_files}")
gtest_discover_tests(test_gpu DISCOVERY_MODE PRE_TEST TEST_PREFIX gpu/
  NO_PRETTY_VALUES PROPERTIES LABELS gpu RUN_SERIAL TRUE ENVIRONMENT OMP_WAIT_POLICY=passive)
