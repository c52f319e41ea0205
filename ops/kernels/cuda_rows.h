// Reductions along rows and columns, in the order of the CPU's (ops/kernels/rows.h): element i of a
// row goes to lane i mod 32, and the lanes are combined pairwise; so a warp that sums a row gives
// its bits.
#pragma once
#include <type_traits>

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

// Whether rows of `width` elements from there on can be moved 16 bytes at a time.
template <class T> __device__ bool is_wide(const T* rows, int64_t width) {
  return sizeof(T) == 2 && width % kGroup == 0 && reinterpret_cast<uintptr_t>(rows) % 16 == 0;
}
template <class T> __device__ Stored whole_groups(const T* row) {
  constexpr DType kType = std::is_same_v<T, bf16>  ? DType::bf16
                          : std::is_same_v<T, f16> ? DType::f16
                                                   : DType::f32;
  return {.data = const_cast<T*>(row), .type = kType, .vector = true};
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
  const bool wide = is_wide(x, kGroup);
  if constexpr (sizeof(T) == 2) {
    for (int64_t i = lane_number() * kGroup; wide && i < n; i += kWarp * kGroup) {
      float v[kGroup];
      const int count = group_size(i, n);
      load8(whole_groups(x), i, count, v);
#pragma unroll
      for (int k = 0; k < kGroup; ++k) best = k < count && v[k] > best ? v[k] : best;
    }
    if (wide) return warp_max(best);
  }
#pragma unroll 4
  for (int64_t i = lane_number(); i < n; i += kWarp) {
    const float v = load(x, i);
    best = v > best ? v : best;
  }
  return warp_max(best);
}

// to[j] = f(j, x[0][j], ..) of a row by a warp, which may lie over one of the rows: an element a
// lane, or eight of 16 bits where all rows are wide. f(j, v) is handed so many from element j on,
// v[k] those of x[k], and leaves the results in v[0].
template <class T, int N, class F>
__device__ void warp_map_row(T* to, const T* const (&x)[N], int64_t width, bool wide, F f) {
  if constexpr (sizeof(T) == 2) {
    for (int64_t j = lane_number() * kGroup; wide && j < width; j += kWarp * kGroup) {
      float v[N][kGroup];
#pragma unroll
      for (int k = 0; k < N; ++k) load8(whole_groups(x[k]), j, kGroup, v[k]);
      f(j, v);
      store8(whole_groups(to), j, kGroup, v[0]);
    }
    if (wide) return;
  }
  for (int64_t j = lane_number(); j < width; j += kWarp) {
    float v[N][1];
#pragma unroll
    for (int k = 0; k < N; ++k) v[k][0] = load(x[k], j);
    f(j, v);
    store(to, j, v[0][0]);
  }
}
// n floats of a parameter from element j on: a warp's lie side by side, or each lane's do.
template <int n> __device__ void load_parameter(const float* p, int64_t j, float (&v)[n]) {
  if constexpr (n == 1) {
    v[0] = p[j];
  } else {
    load8({.data = const_cast<float*>(p), .vector = reinterpret_cast<uintptr_t>(p) % 16 == 0}, j,
          kGroup, v);
  }
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

// Columns of partial sums, one a chunk, rows `stride` apart, added up in order onto so_far.
struct PartialSums {
  Stored to;  // no data: nothing is to be added up
  const float* partial;
  Stored so_far;
};
struct TwoPartialSums {
  PartialSums of[2];
};
constexpr int kBroughtChunks = 64;  // that a block holds at a time

// A block has 32 columns. All of its warps bring partial sums, the first one adds them up.
__global__ inline void sum_partials_kernel(TwoPartialSums sums, int64_t chunks, int64_t width,
                                           int64_t stride) {
  float* brought = shared_memory<float>();
  const unsigned across = unsigned((width + kWarp - 1) / kWarp);
  // Field by field: a whole one that is picked would be laid on a stack.
  const bool first_of_two = blockIdx.x < across;
  const auto picked = [&](const Stored& one, const Stored& other) {
    return Stored{.data = first_of_two ? one.data : other.data,
                  .type = first_of_two ? one.type : other.type};
  };
  const Stored to = picked(sums.of[0].to, sums.of[1].to);
  const Stored so_far = picked(sums.of[0].so_far, sums.of[1].so_far);
  const float* partial = first_of_two ? sums.of[0].partial : sums.of[1].partial;
  const int64_t c = int64_t(blockIdx.x % across) * kWarp + lane_number();
  float sum = 0;
  for (int64_t first = 0; first < chunks; first += kBroughtChunks) {
    const int n = chunks - first < kBroughtChunks ? int(chunks - first) : kBroughtChunks;
#pragma unroll
    for (int i = 0; i < kBroughtChunks; i += kThreads / kWarp) {
      const int chunk = i + warp_number();
      const bool there = chunk < n && c < width;
      brought[chunk * kWarp + lane_number()] = there ? partial[(first + chunk) * stride + c] : 0;
    }
    __syncthreads();
    if (warp_number() == 0) {
      for (int i = 0; i < n; ++i) sum += brought[i * kWarp + lane_number()];
    }
    __syncthreads();
  }
  if (warp_number() || c >= width) return;
  if (so_far.data) sum = load1(so_far, c) + sum;
  store1(to, c, sum);
}
inline void sum_partials(const KernelArgs& a, const PartialSums& one, const PartialSums& other,
                         int64_t chunks, int64_t width, int64_t stride) {
  const TwoPartialSums both{{one.to.data ? one : other, other}};
  const int64_t how_many = (one.to.data != nullptr) + (other.to.data != nullptr);
  launch(sum_partials_kernel, {blocks_of(width, kWarp) * how_many}, kThreads,
         kBroughtChunks * kWarp * sizeof(float), stream_of(a), both, chunks, width, stride);
}
inline void sum_partials(const KernelArgs& a, const Stored& to, const float* partial,
                         int64_t chunks, int64_t width, int64_t stride, const Stored& so_far) {
  sum_partials(a, {to, partial, so_far}, {}, chunks, width, stride);
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
  const double sum = threadIdx.x ? 0 : shared[0];  // which thread 0 wrote last
  __syncthreads();
  return sum;
}

}  // namespace pal
