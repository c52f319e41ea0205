# The CUDA language: for Turing, Ampere and Hopper unless told otherwise, warnings as errors.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 75 80 90)
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
set(PAL_CUDA_LIBRARIES CUDA::cudart)

if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  # CMake 3.25 (Debian 12) knows nvcc up to C++17, and asks it for our CMAKE_CXX_STANDARD.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3")  # assertions stay on

set(cuda_flags -Werror=all-warnings -Xcompiler=-Wall,-Wextra,-Wshadow,-Werror,-ffp-contract=off)
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:${cuda_flags}>")
