// PAL_HD marks a function that CUDA kernels call as well as the processor's code.
#pragma once

#ifdef __CUDACC__
#define PAL_HD __host__ __device__
#else
#define PAL_HD
#endif
