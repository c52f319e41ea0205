// Reductions along rows and columns, in the order of the CPU's (ops/kernels/rows.h): element i of a
// row goes to lane i mod 32, and the lanes are combined pairwise; so a warp that sums a row gives
// its bits.
#pragma once
#include "core/cuda/launch.h"
#include "ops/kernels/cuda_elements.h"
#include "ops/kernels/math.h"
#include "ops/kernels/rows.h"

namespace pal {

static_assert(kLanes == kWarp);
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kRowsPerBlock = kThreads / kWarp;  // where a warp has a row
constexpr int kColumnThreads = 64;  // where a thread has a column: more, smaller blocks

// The row of this warp.
__device__ inline int64_t row_of_warp() {
  return int64_t(blockIdx.x) * kRowsPerBlock + warp_number();
}

// LaneSum::total and LaneMax::total, in every lane.
__device__ inline float warp_sum(float lane) {
#pragma unroll
  for (int width = kWarp / 2; width > 0; width /= 2) {
    lane += __shfl_xor_sync(kAllLanes, lane, width);
  }
  return lane;
}
__device__ inline float warp_max(float lane) {
#pragma unroll
  for (int width = kWarp / 2; width > 0; width /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, lane, width);
    lane = other > lane ? other : lane;
  }
  return lane;
}

// row_sum and a row's maximum (NaNs passed over) by a warp: f(0) .. f(n - 1).
template <class F> __device__ float warp_row_sum(int64_t n, F f) {
  float sum = 0;
#pragma unroll 4
  for (int64_t i = lane_number(); i < n; i += kWarp) sum += f(i);
  return warp_sum(sum);
}
template <class T> __device__ float warp_row_max(const T* x, int64_t n) {
  float best = -__builtin_huge_valf();
#pragma unroll 4
  for (int64_t i = lane_number(); i < n; i += kWarp) {
    const float v = load(x, i);
    best = v > best ? v : best;
  }
  return warp_max(best);
}

// log(e^x[0] + .. + e^x[width - 1]) by a warp.
template <class T> __device__ float log_sum_exp(const T* x, int64_t width) {
  const float most = warp_row_max(x, width);
  const float total = warp_row_sum(width, [&](int64_t j) { return exp(load(x, j) - most); });
  return most + log(total);
}

// to[chunk, c] = (so_far[c] +) the sum of the chunk's rows of column c of x, one after the other
// from zero. Rows lie `stride` elements apart, chunks have `per_chunk` of them.
template <class T>
__global__ void sum_rows_kernel(Stored to, const T* x, int64_t rows, int64_t width, int64_t stride,
                                int64_t per_chunk, Stored so_far) {
  const auto [chunk, c] = chunk_and_column(width);
  if (c >= width) return;
  const int64_t begin = chunk * per_chunk;
  const int64_t end = begin + per_chunk < rows ? begin + per_chunk : rows;
  float sum = 0;
#pragma unroll 8
  for (int64_t r = begin; r < end; ++r) sum += load(x, r * stride + c);
  if (so_far.data) sum = load1(so_far, c) + sum;
  store1(to, chunk * width + c, sum);
}

// Columns of (chunks, width) partial sums, rows `stride` apart, added up in order onto so_far.
inline void sum_partials(const KernelArgs& a, const Stored& to, const float* partial,
                         int64_t chunks, int64_t width, int64_t stride, const Stored& so_far) {
  launch(sum_rows_kernel<float>, {blocks_of(width, kColumnThreads)}, kColumnThreads, a, to, partial,
         chunks, width, stride, chunks, so_far);
}

// tree_sum of ops/kernels/rows.h by a block of kTreeLanes threads, which all call it; the result is
// thread 0's. `shared`: room for as many numbers.
template <class F> __device__ double tree_sum(int64_t count, double* shared, F f) {
  double lane = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < count; i += kTreeLanes) lane += f(i);
  shared[threadIdx.x] = lane;
  for (unsigned width = kTreeLanes / 2; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) shared[threadIdx.x] += shared[threadIdx.x + width];
  }
  const double sum = shared[0];
  __syncthreads();  // thread 0 has read it
  return sum;
}

}  // namespace pal
