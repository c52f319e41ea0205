// What the kernels of batch_norm and frame_norm share. Sums go through the CPU's chunks of rows: a
// thread sums a column of a chunk (two where a block can bring its rows to shared memory first), a
// block adds up the chunks of some channels in f64 along a tree, and a third kernel goes through
// the elements. x may be written over: that comes last.
#pragma once
#include <algorithm>

#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/kernels/cuda_rows.h"

namespace pal {

// Rows of channels, and the chunks that sums go through.
struct NormRows {
  int64_t rows, channels, per_chunk, chunks;
  bool all = false;  // every row counts: nobody counts them
};
__device__ inline int64_t chunk_end(const NormRows& r, int64_t begin) {
  return begin + r.per_chunk < r.rows ? begin + r.per_chunk : r.rows;
}

// `Valid`, below, says which rows count; its kAll: every one.

// Per channel; null: not wanted. `mean` and `scale` = gamma rstd are what the elements need, `own`
// what a rank says of its rows: {mean, m2, rows}.
struct NormMoments {
  float *mean, *scale, *mean_out, *rstd_out, *variance_out;
  float* own = nullptr;
};
// From the chunks' sums in the workspace, along tree_sum's tree.
void finish_moments(const KernelArgs& a, const NormRows& r, const NormMoments& to,
                    const float* gamma, float eps);

// The same of the gradient; null: not wanted. `own`: {sum of dy, sum of
// dy xhat, rows}.
struct NormGradientSums {
  float *mean_dy, *slope, *dgamma, *dbeta;
  float* own = nullptr;
};
void finish_gradient_sums(const KernelArgs& a, const NormRows& r, const NormGradientSums& to,
                          const float* rstd);

// Workspace: three sums of a chunk and channel, the valid rows of every chunk where they are
// counted, and two numbers per channel.
struct NormSpace {
  float *partial, *count, *first, *second;
  NormSpace(const KernelArgs& a, const NormRows& r)
      : partial(reinterpret_cast<float*>(a.workspace)),
        count(partial + 3 * r.chunks * r.channels),
        first(count + (r.all ? 0 : r.chunks)),
        second(first + r.channels) {}
};
inline Prepared prepare_norm(const NormRows& r) {
  const int64_t counts = r.all ? 0 : r.chunks;
  return {.workspace = ((3 * r.chunks + 2) * r.channels + counts) * int64_t(sizeof(float))};
}

// partial[chunk] = {x of its first valid row, the sum of x less that, the sum of squared distances
// from its mean}.
template <class T, class Valid>
__global__ void batch_norm_chunks_kernel(float* partial, float* count, const T* x, NormRows r,
                                         Valid valid) {
  const auto [chunk, c] = chunk_and_column(r.channels);
  if (c >= r.channels) return;
  const int64_t begin = chunk * r.per_chunk, end = chunk_end(r, begin);
  float first = 0, sum = 0, m2 = 0;
  int64_t n = 0;
#pragma unroll 8
  for (int64_t i = begin; i < end; ++i) {
    if (!valid(i)) continue;
    const float v = load(x, i * r.channels + c);
    if (n++ == 0) first = v;
    sum += v - first;
  }
  const float mean = n ? sum * (1.0f / float(n)) : 0;
#pragma unroll 8
  for (int64_t i = begin; i < end; ++i) {
    if (!valid(i)) continue;
    const float distance = load(x, i * r.channels + c) - first - mean;
    m2 += distance * distance;
  }
  float* own = partial + chunk * 3 * r.channels + c;
  own[0] = first, own[r.channels] = sum, own[2 * r.channels] = m2;
  if (c == 0 && !r.all) count[chunk] = float(n);
}

// ---- a chunk's rows of some columns in shared memory: brought once, 16 bytes at a time ----

constexpr int64_t kNormTile = 32 << 10;    // bytes of it
constexpr int64_t kNormTileColumns = 512;  // at most: two a thread

// The columns of a tile, of one or two tensors of T; 0: rows are not such as can be brought so.
template <class T, class... P> int64_t norm_tile_columns(const NormRows& r, const P*... rows) {
  if (r.channels % kGroup || ((reinterpret_cast<uintptr_t>(rows) % 16) || ...)) return 0;
  const int64_t row = r.per_chunk * int64_t(sizeof(T)) * int64_t(sizeof...(rows));
  const int64_t most = kNormTile / row / kGroup * kGroup;
  return std::min({most, kNormTileColumns, r.channels});
}
template <class T> size_t norm_tile_bytes(const NormRows& r, int64_t columns, int64_t tensors) {
  const int64_t counts = r.all ? 0 : r.per_chunk;
  return size_t(tensors * r.per_chunk * columns * int64_t(sizeof(T)) + counts);
}
// A block's chunk and columns; the blocks of a chunk lie side by side.
struct NormTilePlace {
  int64_t chunk, begin, column;
  int rows, columns;
  __device__ NormTilePlace(const NormRows& r, int64_t tile) {
    const unsigned across = unsigned((r.channels + tile - 1) / tile);
    chunk = blockIdx.x / across;
    begin = chunk * r.per_chunk, column = int64_t(blockIdx.x % across) * tile;
    rows = int(chunk_end(r, begin) - begin);
    columns = int(r.channels - column < tile ? r.channels - column : tile);
  }
};
template <class T>
__device__ void bring_tile(T* to, const T* x, const NormRows& r, const NormTilePlace& tile) {
  constexpr unsigned kInWord = 16 / sizeof(T), kAtOnce = 4;
  const T* from = x + tile.begin * r.channels + tile.column;
  const unsigned across = unsigned(tile.columns) / kInWord, n = unsigned(tile.rows) * across;
  for (unsigned first = threadIdx.x; first < n; first += kAtOnce * kThreads) {
    uint4 word[kAtOnce];
#pragma unroll
    for (unsigned j = 0; j < kAtOnce; ++j) {
      const unsigned k = first + j * kThreads, row = k / across;
      if (k >= n) continue;
      const T* at = from + int64_t(row) * r.channels + (k - row * across) * kInWord;
      word[j] = *reinterpret_cast<const uint4*>(at);
    }
#pragma unroll
    for (unsigned j = 0; j < kAtOnce; ++j) {
      const unsigned k = first + j * kThreads;
      if (k < n) reinterpret_cast<uint4*>(to)[k] = word[j];
    }
  }
}
// Whether each row counts.
template <class Valid>
__device__ void bring_counts(uint8_t* counts, const NormTilePlace& tile, Valid valid) {
  if constexpr (!Valid::kAll) {
    for (int i = int(threadIdx.x); i < tile.rows; i += kThreads) counts[i] = valid(tile.begin + i);
  }
}
template <class T> __device__ void load_columns(const T* at, float (&v)[2]) {
  if constexpr (sizeof(T) == 2) {
    unpack<T>(*reinterpret_cast<const uint32_t*>(at), v);
  } else {
    const float2 two = *reinterpret_cast<const float2*>(at);
    v[0] = two.x, v[1] = two.y;
  }
}

// As batch_norm_chunks_kernel, with its sums. What a row that does not count adds is 0.
template <class T, class Valid>
__global__ void norm_tile_moments_kernel(float* partial, float* count, const T* x, NormRows r,
                                         Valid valid, int64_t tile_columns) {
  const NormTilePlace tile(r, tile_columns);
  T* rows = shared_memory<T>();
  uint8_t* counts = reinterpret_cast<uint8_t*>(rows + tile.rows * tile.columns);
  bring_tile(rows, x, r, tile), bring_counts(counts, tile, valid);
  __syncthreads();
  const int c = 2 * int(threadIdx.x);
  if (c >= tile.columns) return;
  rows += c;
  int first = 0, n = 0;
  if constexpr (!Valid::kAll) {
    while (first < tile.rows && !counts[first]) ++first;
  }
  float base[2] = {}, sum[2] = {}, mean[2], m2[2] = {};
  if (first < tile.rows) load_columns(rows + first * tile.columns, base);
#pragma unroll 8
  for (int i = 0; i < tile.rows; ++i) {
    const bool here = Valid::kAll || counts[i];
    float v[2];
    load_columns(rows + i * tile.columns, v);
#pragma unroll
    for (int k = 0; k < 2; ++k) sum[k] += here ? v[k] - base[k] : 0;
    n += here;
  }
#pragma unroll
  for (int k = 0; k < 2; ++k) mean[k] = n ? sum[k] * (1.0f / float(n)) : 0;
#pragma unroll 8
  for (int i = 0; i < tile.rows; ++i) {
    const bool here = Valid::kAll || counts[i];
    float v[2];
    load_columns(rows + i * tile.columns, v);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const float distance = v[k] - base[k] - mean[k];
      m2[k] += here ? distance * distance : 0;
    }
  }
  float* own = partial + tile.chunk * 3 * r.channels + tile.column + c;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    own[k] = base[k], own[r.channels + k] = sum[k], own[2 * r.channels + k] = m2[k];
  }
  if (tile.column + c == 0 && !r.all) count[tile.chunk] = float(n);
}

// y = (x - mean) factor(c) + beta, 0 in rows that do not count; eight elements a thread. With relu:
// max(y (+ residual), 0).
struct NormElements {
  Stored y, x, residual{};
  Stored mean, beta;  // a number a channel
  bool relu, apart;   // apart: RowEight's
};
template <class Valid, class F>
__global__ void normalize_kernel(NormElements a, NormRows r, Valid valid, F factor) {
  const RowEight e(r.rows, r.channels, a.apart);
  if (e.none()) return;
  float v[kGroup], mean[kGroup], scale[kGroup], beta[kGroup];
  e.load(a.x, v), e.load_row(a.mean, mean), factor.load(e, scale), e.load_row(a.beta, beta);
  const bool first = valid(e.row[0]);
  const bool counts[2] = {first, e.row[1] == e.row[0] ? first : valid(e.row[1])};
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    v[k] = counts[k / 4] ? (v[k] - mean[k]) * scale[k] + beta[k] : 0;
  }
  if (a.residual.data) {
    float other[kGroup];
    e.load(a.residual, other);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) v[k] = Add{}(as_stored(a.y.type, v[k]), other[k]);
  }
  if (a.relu) {
#pragma unroll
    for (int k = 0; k < kGroup; ++k) v[k] = Relu{}(v[k]);
  }
  e.store(a.y, v);
}
// Factors of the thread's channels.
struct GivenFactor {
  Stored scale;
  __device__ void load(const RowEight& e, float* v) const { e.load_row(scale, v); }
};
struct FromVariance {
  Stored gamma, variance;
  float eps;
  __device__ void load(const RowEight& e, float* v) const {
    float of[kGroup];
    e.load_row(gamma, v), e.load_row(variance, of);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) v[k] = v[k] / sqrtf(of[k] + eps);
  }
};
struct FromDeviation {
  Stored gamma, rstd;
  __device__ void load(const RowEight& e, float* v) const {
    float of[kGroup];
    e.load_row(gamma, v), e.load_row(rstd, of);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) v[k] = v[k] * of[k];
  }
};
template <class Valid, class F>
void normalize_elements(const KernelArgs& a, const NormRows& r, Valid valid, const float* mean,
                        const float* beta, F factor, Stored residual = {}, bool relu = false) {
  const Stored y = stored(a.out[0], a.out_spec[0], r.channels),
               x = stored(a.in[0], a.in_spec[0], r.channels);
  const NormElements elements{.y = y,
                              .x = x,
                              .residual = residual,
                              .mean = floats(mean, r.channels),
                              .beta = floats(beta, r.channels),
                              .relu = relu,
                              .apart = row_fours_apart(r.channels, y, x, residual)};
  launch(normalize_kernel<Valid, F>, grid_of_groups(r.rows * groups_of(r.channels)), a, elements, r,
         valid, factor);
}

template <class Valid>
void norm_moments(const KernelArgs& a, const NormRows& r, Valid valid, float eps,
                  const NormMoments& to, const float* gamma = nullptr) {
  const NormSpace s(a, r);
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    const int64_t tile = norm_tile_columns<T>(r, a.input<T>(0));
    if (tile) {
      return launch(norm_tile_moments_kernel<T, Valid>, {blocks_of(r.channels, tile) * r.chunks},
                    kThreads, norm_tile_bytes<T>(r, tile, 1), stream_of(a), s.partial, s.count,
                    a.input<T>(0), r, valid, tile);
    }
    launch(batch_norm_chunks_kernel<T, Valid>, {blocks_of(r.channels, kColumnThreads) * r.chunks},
           kColumnThreads, a, s.partial, s.count, a.input<T>(0), r, valid);
  });
  finish_moments(a, r, to, gamma, eps);
}

// x, gamma, beta, .. -> y, mean, rstd, variance. With relu: max(y (+ residual), 0).
template <class Valid>
void norm_forward(const KernelArgs& a, const NormRows& r, Valid valid, float eps,
                  Stored residual = {}, bool relu = false) {
  const NormSpace s(a, r);
  norm_moments(a, r, valid, eps, {s.first, s.second, a.output(1), a.output(2), a.output(3)},
               a.input(1));
  if (a.out[0]) {
    normalize_elements(a, r, valid, s.first, a.input(2), GivenFactor{floats(s.second, r.channels)},
                       residual, relu);
  }
}

}  // namespace pal
