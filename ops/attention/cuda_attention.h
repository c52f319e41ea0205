// What the attention kernels share: a tile of 32 queries and 64 keys of one head of one sentence, a
// block of 128 threads. Operands pass through shared memory in chunks of 32 columns; results stay
// in registers, where thread (ty, tx) of 8 x 16 has rows ty + 8 i and columns tx + 16 j. Every sum
// has the order of the CPU's (ops/attention/attention_kernel.cc), so the bits are the same.
#pragma once
#include "core/scalars.h"
#include "ops/elementwise/dropout.h"
#include "ops/kernels/cuda_rows.h"

namespace pal {

constexpr int kTileQueries = 32, kTileKeys = 64, kTileColumns = 32;
constexpr int kTileThreads = 128, kTileWarps = kTileThreads / kWarp;
constexpr int kDown = 8, kAcross = 16;  // threads
// Rows in shared memory begin on different banks.
constexpr int kChunkPitch = kTileColumns + 1, kScorePitch = kTileKeys + 1;
constexpr int kDrawn = kTileKeys + 8;  // a row's factors, and those before it of the same draw

// Rows of heads side by side, `pitch` elements from one to the next.
struct HeadRows : Stored {
  int64_t pitch = 0;
};

// A call of attention or its gradient, spelled out; see AttentionCall of attention_kernel.h.
struct CudaAttention {
  HeadRows q, k, v;
  int64_t queries, keys, batch, heads, width;
  const int32_t* lengths;  // or null
  const StepScalars* scalars;
  bool causal;
  float dropout;
  int64_t stream;
  float scale;
};

struct AttentionGrad {
  CudaAttention call;
  HeadRows out, dout, dq, dk, dv;
  const float* lse;
  float* delta;  // (B, H, T): dout . out
};

// Kernels are compiled for heads of up to 64, 128 and 256 columns: f(their number of chunks).
template <class F> void by_chunks(int64_t width, F f) {
  if (width <= 2 * kTileColumns) return f(std::integral_constant<int, 2>{});
  if (width <= 4 * kTileColumns) return f(std::integral_constant<int, 4>{});
  return f(std::integral_constant<int, 8>{});
}

__device__ inline int down() { return int(threadIdx.x) / kAcross; }
__device__ inline int across() { return int(threadIdx.x) % kAcross; }

// One head of one sentence: unit = sentence * heads + head.
struct CudaHead {
  const CudaAttention& a;
  int unit, limit, sentence, left;  // left: its first column in a row

  __device__ CudaHead(const CudaAttention& call, int64_t u) : a(call), unit(int(u)) {
    sentence = int(divide(u, a.heads)), left = int((u - sentence * a.heads) * a.width);
    limit = int(a.keys);
    if (a.lengths) {
      const int n = a.lengths[sentence];
      limit = n < 0 ? 0 : n < limit ? n : limit;
    }
  }
  // The element at which row t begins.
  __device__ int64_t at(int64_t pitch, int64_t t) const {
    return (t * a.batch + sentence) * pitch + left;
  }
  __device__ int64_t at(const HeadRows& x, int64_t t) const { return at(x.pitch, t); }
  // Of the keys from j on, how many query t may look at, n at most.
  __device__ int64_t visible(int64_t t, int64_t j, int64_t n) const {
    const int64_t end = a.causal && t + 1 < limit ? t + 1 : limit;
    return end <= j ? 0 : end - j < n ? end - j : n;
  }

  // Rows [t, t + n) of x, its `chunk`-th columns, into tile; zero below and beside them.
  template <int kRows>
  __device__ void load(float* tile, const HeadRows& x, int64_t t, int64_t n, int chunk) const {
    constexpr int kGroups = kTileColumns / kGroup;
    for (int g = int(threadIdx.x); g < kRows * kGroups; g += kTileThreads) {
      const int row = g / kGroups, e = g % kGroups * kGroup;
      const int64_t column = int64_t(chunk) * kTileColumns + e;
      float v[kGroup] = {};
      if (row < n && column < a.width) {
        load8(x, at(x, t + row) + column, group_size(column, a.width), v);
      }
#pragma unroll
      for (int k = 0; k < kGroup; ++k) tile[row * kChunkPitch + e + k] = v[k];
    }
  }

  // The dropout's factors of query t and keys [j, j + n), by one warp into `drawn`.
  __device__ const float* factors(int64_t t, int64_t j, int64_t n, float* drawn) const {
    const int64_t first = (unit * a.queries + t) * a.keys + j, before = first % 4;
    __syncwarp();  // the last row's have been read
    if (4 * lane_number() < before + n) {
      const Philox4 four =
          draw(a.scalars->key(uint32_t(a.stream)), uint64_t(first / 4 + lane_number()));
      const float kept = dropout_scale(a.dropout);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        drawn[4 * lane_number() + k] = dropout_factor(four.x[k], a.dropout, kept);
      }
    }
    __syncwarp();
    return drawn + before;
  }
};

// dout . out of queries [t, t + n), by a warp: read again when all of its lanes are here.
__device__ inline void make_deltas(const AttentionGrad& a, const CudaHead& head, int64_t t,
                                   int64_t n) {
  for (int64_t row = t; row < t + n && row < a.call.queries; ++row) {
    const int64_t dout = head.at(a.dout, row), out = head.at(a.out, row);
    const float sum = warp_row_sum(
        a.call.width, [&](int64_t e) { return load1(a.dout, dout + e) * load1(a.out, out + e); });
    if (lane_number() == 0) a.delta[head.unit * a.call.queries + row] = sum;
  }
  __syncwarp();
}

// sum[i][j] += x(row, 0) y(0, column) + .. + x(row, n - 1) y(n - 1, column) one after the other,
// each product added with one rounding (said, since the compiler may not: it would halve the rate),
// where x(r, e) = x[r x_row + e x_step] and y(e, c) = y[c y_column + e y_step].
template <int I, int J>
__device__ void add_products(float (&sum)[I][J], const float* x, int x_row, int x_step,
                             const float* y, int y_column, int y_step, int n) {
  x += down() * x_row, y += across() * y_column;
#pragma unroll 4
  for (int e = 0; e < n; ++e) {
    float left[I], right[J];
#pragma unroll
    for (int i = 0; i < I; ++i) left[i] = x[kDown * i * x_row + e * x_step];
#pragma unroll
    for (int j = 0; j < J; ++j) right[j] = y[kAcross * j * y_column + e * y_step];
#pragma unroll
    for (int i = 0; i < I; ++i) {
#pragma unroll
      for (int j = 0; j < J; ++j) sum[i][j] = fmaf(left[i], right[j], sum[i][j]);
    }
  }
}

// score[i, j] = x_i . y_j for rows [t, t + m) of x and [j, j + n) of y. `left` and `right` are room
// for a chunk of each.
__device__ inline void score_tile(const CudaHead& head, float* score, float* left, float* right,
                                  const HeadRows& x, int64_t t, int64_t m, const HeadRows& y,
                                  int64_t j, int64_t n) {
  float sum[kTileQueries / kDown][kTileKeys / kAcross] = {};
  for (int c = 0; c * kTileColumns < head.a.width; ++c) {
    __syncthreads();  // what the chunks held before has been read
    head.load<kTileQueries>(left, x, t, m, c);
    head.load<kTileKeys>(right, y, j, n, c);
    __syncthreads();
    const int64_t rest = head.a.width - c * kTileColumns;
    add_products(sum, left, kChunkPitch, 1, right, kChunkPitch, 1,
                 rest < kTileColumns ? int(rest) : kTileColumns);
  }
#pragma unroll
  for (int i = 0; i < kTileQueries / kDown; ++i) {
#pragma unroll
    for (int k = 0; k < kTileKeys / kAcross; ++k) {
      score[(down() + kDown * i) * kScorePitch + across() + kAcross * k] = sum[i][k];
    }
  }
}

}  // namespace pal
