// What the kernels of several sums share: products summed in the CPU's chunks, and the chunks' sums
// added up in their order.
#pragma once
#include "ops/kernels/cuda_rows.h"

namespace pal {

// out = the partial sums (+ old).
template <class P>
__global__ void finish_sum_kernel(float* out, const P* partial, int64_t count, const float* old) {
  const double sum =
      tree_sum(count, shared_memory<double>(), [&](int64_t i) { return double(partial[i]); });
  if (threadIdx.x == 0) *out = float(sum) + (old ? *old : 0.0f);
}
template <class P>
void finish_sum(const KernelArgs& a, const P* partial, int64_t count, const float* old) {
  launch(finish_sum_kernel<P>, {1}, kTreeLanes, kTreeLanes * sizeof(double), stream_of(a),
         a.output(0), partial, count, old);
}

// Sums of products of two operands, which may be one.

constexpr int kTilesPerChunk = int(kElementGrain / kTile);  // a warp each
constexpr int kProductThreads = kTilesPerChunk * kWarp;

// The sum of x y over the chunk that begins with element `chunk`: the tiles' sums, added up in
// double. By the block, whose shared memory `sums` is; the result is thread 0's.
template <class T>
__device__ double chunk_sum(const T* x, const T* y, int64_t chunk, int64_t size, float* sums) {
  const int64_t begin = chunk + warp_number() * kTile;
  const int64_t n = size - begin < kTile ? size - begin : kTile;
  const float sum =
      warp_row_sum(n, [&](int64_t i) { return load(x, begin + i) * load(y, begin + i); });
  if (lane_number() == 0) sums[warp_number()] = sum;
  __syncthreads();
  double total = 0;
  if (threadIdx.x) return total;
  for (int t = 0; t < kTilesPerChunk && chunk + t * kTile < size; ++t) total += double(sums[t]);
  return total;
}

// partial[chunk] = its sum. Of a single chunk the result itself.
template <class T>
__launch_bounds__(kProductThreads) __global__
    void products_kernel(double* partial, const T* x, const T* y, int64_t size, float* out,
                         const float* old) {
  const double total =
      chunk_sum(x, y, int64_t(blockIdx.x) * kElementGrain, size, shared_memory<float>());
  if (threadIdx.x) return;
  if (gridDim.x > 1)
    partial[blockIdx.x] = total;
  else
    *out = float(total) + (old ? *old : 0.0f);
}
// out 0 = the sum of operand x times operand y (+ old).
inline void sum_products(const KernelArgs& a, size_t x, size_t y, const float* old) {
  const int64_t size = a.in_spec[x].numel(), chunks = blocks_of(size, kElementGrain);
  double* partial = reinterpret_cast<double*>(a.workspace);
  by_float_type(a.in_spec[x].dtype, [&]<class T>(T) {
    launch(products_kernel<T>, {chunks}, kProductThreads, kTilesPerChunk * sizeof(float),
           stream_of(a), partial, a.input<T>(x), a.input<T>(y), size, a.output(0), old);
  });
  if (chunks != 1) finish_sum(a, partial, chunks, old);
}
inline Prepared prepare_products(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  return {.workspace = blocks_of(in[0].numel(), kElementGrain) * int64_t(sizeof(double))};
}

}  // namespace pal
