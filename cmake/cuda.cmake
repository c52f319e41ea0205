# The CUDA language: for Turing, Ampere and Hopper unless told otherwise, warnings as errors.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 75 80 90)
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
# The runtime is linked in, so that the program starts where there is no toolkit.
set(PAL_CUDA_LIBRARIES CUDA::cudart_static)

# cuDNN's header is all that is wanted of it here: the library is looked for when a program runs.
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
set(PAL_CUDNN OFF)
if(EXISTS ${CUDNN_INCLUDE_DIR}/cudnn_version.h)
  file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h PAL_CUDNN REGEX "define CUDNN_MAJOR 9")
endif()
if(NOT PAL_CUDNN)
  message(STATUS "cuDNN 9's cudnn.h was not found (CUDNN_INCLUDE_DIR names its folder): "
    "convolutions will be windows and cuBLASLt's products, whatever a machine has")
endif()

if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  # CMake 3.25 (Debian 12) knows nvcc up to C++17, and asks it for our CMAKE_CXX_STANDARD.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3")  # assertions stay on

# Kernels with stack frames that tests/gpu/stack_frames.txt does not know fail the build; that is what
# one nvcc says of sm_90, so 90-real is to be the only architecture with code of its own.
option(PAL_CHECK_FRAMES "refuse kernels that spill or have a stack frame" OFF)
set(frame_flags)
if(PAL_CHECK_FRAMES)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_SOURCE_DIR}/scripts/nvcc-frames)
  set(frame_flags -Xptxas=-v)
endif()

include(cmake/rooms.cmake)

# The .cu files of a folder, room by room. Their objects go to whoever links the library, whole:
# operators refer to their kernels by names that may be missing, which would not fetch them out of an
# archive.
function(pal_cuda_library name)
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${name}/*.cu)
  if(NOT PAL_CUDNN)
    list(FILTER kernels EXCLUDE REGEX "/cudnn[^/]*$")
  endif()
  if(kernels)
    pal_rooms(rooms cu ${kernels})
    add_library(pal_${name}_cuda OBJECT ${rooms})
    if(PAL_CUDNN)
      target_include_directories(pal_${name}_cuda SYSTEM PRIVATE ${CUDNN_INCLUDE_DIR})
    endif()
    target_link_libraries(pal_${name}_cuda PUBLIC ${ARGN} ${PAL_CUDA_LIBRARIES})
    # Linked and no more: no .cc file sees CUDA, or is compiled otherwise than without it.
    target_link_libraries(pal_${name} PUBLIC $<TARGET_OBJECTS:pal_${name}_cuda>
      $<LINK_ONLY:${PAL_CUDA_LIBRARIES}> ${CMAKE_DL_LIBS})
  endif()
endfunction()

# -fmad=false: no product is contracted with a sum, so that elementwise kernels give the processor's
# bits; they wait for memory, not for arithmetic. The formulas' fmaf is one instruction either way.
set(cuda_flags ${frame_flags} -fmad=false --expt-relaxed-constexpr --threads=0
  -Werror=all-warnings -Xcompiler=-Wall,-Wextra,-Wshadow,-Werror,-Wno-missing-field-initializers,-Wno-unknown-pragmas,-ffp-contract=off)
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:${cuda_flags}>")
