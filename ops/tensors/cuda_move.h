// Bytes moved on the GPU, for the runs of ops/tensors/moves.h.
#pragma once
#include "ops/elementwise/add.h"
#include "ops/kernels/cuda_row_copies.h"
#include "ops/tensors/moves.h"

namespace pal {

struct CudaMove {
  static void copy(const KernelArgs& a, void* to, const void* from, int64_t bytes) {
    copy_async(a, to, from, bytes);
  }
  static void zero(const KernelArgs& a, void* to, int64_t bytes) { zero_async(a, to, bytes); }
  static void rows(const KernelArgs& a, void* to, int64_t to_stride, const void* from,
                   int64_t from_stride, int64_t rows, int64_t bytes) {
    copy_rows_async(a, to, to_stride, from, from_stride, rows, bytes, SameRow{});
  }
  static void add(const KernelArgs& a) { launch_map<2>(a, Add{}); }
};

}  // namespace pal
