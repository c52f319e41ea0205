// top_k: a block has a row. Each thread knows the first of its own elements that was not taken yet;
// the block takes the first of these, k times, and whose it was looks for its next one.
#include "ops/kernels/cuda_rows.h"
#include "ops/losses/top_k.h"

namespace pal {
namespace {

struct Ranked {
  float x = 0;
  int32_t i = -1;  // none
};
__device__ bool is_first(const Ranked& a, const Ranked& b) {
  return a.i >= 0 && (b.i < 0 || ranks_before(a.x, a.i, b.x, b.i));
}

// The first of this thread's elements behind `last`; of all of them where that is none.
__device__ Ranked first_behind(const Ranked& last, const float* row, int64_t width) {
  Ranked best;
  for (int64_t j = threadIdx.x; j < width; j += kThreads) {
    const Ranked one{row[j], int32_t(j)};
    if ((last.i < 0 || is_first(last, one)) && is_first(one, best)) best = one;
  }
  return best;
}

__global__ void top_k_kernel(float* values, int32_t* indices, const float* x, int64_t width,
                             int64_t k) {
  Ranked* const of_warps = shared_memory<Ranked>();
  const int64_t row = blockIdx.x;
  Ranked mine = first_behind({}, x + row * width, width);
  for (int64_t n = 0; n < k; ++n) {
    Ranked best = mine;
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) {
      const Ranked other{__shfl_xor_sync(kAllLanes, best.x, step),
                         __shfl_xor_sync(kAllLanes, best.i, step)};
      if (is_first(other, best)) best = other;
    }
    if (lane_number() == 0) of_warps[warp_number()] = best;
    __syncthreads();
    best = of_warps[0];
    for (int w = 1; w < kRowsPerBlock; ++w) {
      if (is_first(of_warps[w], best)) best = of_warps[w];
    }
    if (threadIdx.x == 0) {
      if (values) values[row * k + n] = best.x;
      if (indices) indices[row * k + n] = best.i;
    }
    if (best.i == mine.i) mine = first_behind(best, x + row * width, width);
    __syncthreads();
  }
}

void run_top_k(const KernelArgs& a) {
  launch(top_k_kernel, {row_count(a.in_spec[0].shape)}, kThreads, kRowsPerBlock * sizeof(Ranked),
         stream_of(a), a.output(0), a.output<int32_t>(1), a.input(0), a.in_spec[0].shape.back(),
         a.attrs.as<TopKAttrs>().k);
}

}  // namespace

const Backend top_k_cuda{.run = run_top_k};

}  // namespace pal
