# The flags of every C++ file: the instruction set, the warnings, the sanitizers.

# Bit-identity across passes: one rounding per operation, whatever the compiler could fuse.
# Without errno, sqrt is one instruction; results are the same.
set(flags -march=${PAL_ARCH} -ffp-contract=off -fno-math-errno -Wall -Wextra -Wshadow -Werror
  -Wno-missing-field-initializers)  # designated initializers leave the rest to its defaults
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  list(APPEND flags -Wno-pass-failed)  # clang vectorises fewer of the loops marked `omp simd`
endif()
# Vectors check the ids that index them (core/ids.h), at 6 % of the time that a plan takes: on where
# tests look for such faults anyway.
if(PAL_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL Debug)
  list(APPEND flags -DPAL_CHECK_IDS)
endif()
if(PAL_SANITIZE)
  # -fno-sanitize-recover: undefined behaviour ends the test instead of printing a line in passing.
  list(APPEND flags -fsanitize=${PAL_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer -g1)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # GCC's flow analysis does not see through its own instrumentation.
    list(APPEND flags -Wno-maybe-uninitialized)
  endif()
  add_link_options(-fsanitize=${PAL_SANITIZE})
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${flags}>")
