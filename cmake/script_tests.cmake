# Scripts that are tested: scripts/gpu-check with programs that only pretend and on the emulated GPU,
# scripts/check-layers, scripts/nvcc-frames, the words of the launcher, the list of slow tests, what
# scripts/soak makes of figures, what scripts/load says of programs, and the changes that scripts/mutate makes.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_test(NAME scripts/gpu_check
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/gpu/gpu_check_test.py)
  if(TARGET bench_step_emulated)
    add_test(NAME scripts/gpu_rehearsal
      COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/gpu/rehearsal_test.py ${CMAKE_BINARY_DIR})
  endif()
  add_test(NAME scripts/check_layers
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/scripts/check_layers_test.py)
  add_test(NAME scripts/nvcc_frames
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/scripts/nvcc_frames_test.py)
  add_test(NAME scripts/launcher_words
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/scripts/launcher_words_test.py)
  add_test(NAME scripts/slow_tests
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/scripts/slow_tests_test.py ${CMAKE_BINARY_DIR})
  add_test(NAME scripts/soak
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/scripts/soak_test.py)
  add_test(NAME scripts/load
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/scripts/load_test.py)
  add_test(NAME scripts/mutate
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/scripts/mutate_test.py)
endif()
