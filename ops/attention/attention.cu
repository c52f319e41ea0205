// attention and its gradient, in tiles whose scores never leave the chip (Dao et al. 2022). The
// formulas and the order of the sums are those of ops/attention/attention_kernel.cc. What tensor
// cores may multiply has kernels of its own (attention_cores.h).
#include "ops/attention/attention.h"
#include "ops/attention/attention_cores.h"
#include "ops/attention/attention_operands.h"
#include "ops/attention/cuda_attention.h"
#include "ops/kernels/math.h"
#include "ops/kernels/operands.h"

namespace pal {
namespace {

HeadRows head_rows(const void* data, const AttentionOperands& o, int64_t heads, int64_t pitch) {
  return {stored(data, {{1}, o.type}, o.columns / heads), pitch};
}

// q, k and v stand from `at` on.
CudaAttention cuda_attention(const KernelArgs& a, const AttentionOperands& o, size_t at) {
  auto& attrs = a.attrs.as<AttentionAttrs>();
  const auto [q, k, v] = o.in(a.in, at);
  const int64_t width = o.columns / attrs.heads;
  return {.q = head_rows(q, o, attrs.heads, o.q_pitch),
          .k = head_rows(k, o, attrs.heads, o.kv_pitch),
          .v = head_rows(v, o, attrs.heads, o.kv_pitch),
          .queries = o.queries,
          .keys = o.keys,
          .batch = o.batch,
          .heads = attrs.heads,
          .width = width,
          .lengths = input_if_present<int32_t>(a, at + 3),
          .scalars = input_if_present<StepScalars>(a, at + 4),
          .causal = attrs.causal,
          .dropout = attrs.dropout,
          .stream = attrs.stream,
          .scale = 1 / std::sqrt(float(width))};
}

// Calls f(row, column, its number of chunk, i, k) for this thread's results of the first `rows`
// rows.
template <int kChunks, int kRows, class F>
__device__ void each_result(int64_t rows, int64_t width, F f) {
#pragma unroll
  for (int i = 0; i < kRows / kDown; ++i) {
    const int row = down() + kDown * i;
    if (row >= rows) continue;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int k = 0; k < kTileColumns / kAcross; ++k) {
        const int column = c * kTileColumns + across() + kAcross * k;
        if (column < width) f(row, column, c, i, k);
      }
    }
  }
}

// ---- forward: a block has a tile of queries, and goes through the keys ----

// One row of scores to e^(scaled score - maximum), the maximum that of all tiles so far; by a warp.
// -> what the sums so far are to be multiplied by.
__device__ float exponents(const CudaHead& head, float* p, int64_t used, float* top, float* total) {
  const int lane = lane_number();
  float x[2], most = -__builtin_huge_valf(), sum = 0;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    x[k] = p[lane + kWarp * k] * head.a.scale;
    if (lane + kWarp * k < used && x[k] > most) most = x[k];
  }
  most = warp_max(most);
  const float before = *top, now = before < most ? most : before;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    x[k] = lane + kWarp * k < used ? exp(x[k] - now) : 0;
    sum += x[k];
    p[lane + kWarp * k] = x[k];
  }
  sum = warp_sum(sum);
  const float shrink = exp(before - now), total_now = *total * shrink + sum;
  __syncwarp();  // all have read what one writes
  if (lane == 0) *top = now, *total = total_now;
  return before != now ? shrink : 1;
}

// Without a number of blocks the compiler stops at 64 registers for narrow heads, and spills.
template <int kChunks, int kBlocks = kChunks <= 2 ? 6 : 1>
__global__ void __launch_bounds__(kTileThreads, kBlocks)
    attention_kernel(CudaAttention a, HeadRows out, float* lse, int64_t tiles) {
  float* left = shared_memory<float>();
  float* right = left + kTileQueries * kChunkPitch;
  float* score = right + kTileKeys * kChunkPitch;
  float* top = score + kTileQueries * kScorePitch;
  float *total = top + kTileQueries, *shrink = total + kTileQueries;
  float* drawn = shrink + kTileQueries + warp_number() * kDrawn;
  const CudaHead head(a, blockIdx.x / tiles);
  const int64_t t = blockIdx.x % tiles * kTileQueries;
  const int64_t m = a.queries - t < kTileQueries ? a.queries - t : kTileQueries;
  const int64_t last = head.visible(t + m - 1, 0, a.keys);
  constexpr int I = kTileQueries / kDown, J = kTileColumns / kAcross;
  float sum[kChunks][I][J] = {};
  if (threadIdx.x < kTileQueries) {
    top[threadIdx.x] = -__builtin_huge_valf(), total[threadIdx.x] = 0, shrink[threadIdx.x] = 1;
  }
  for (int64_t j = 0; j < last; j += kTileKeys) {
    const int64_t n = last - j < kTileKeys ? last - j : kTileKeys;
    score_tile(head, score, left, right, a.q, t, m, a.k, j, n);
    __syncthreads();
    for (int i = warp_number(); i < m; i += kTileWarps) {
      float* p = score + i * kScorePitch;
      const int64_t used = head.visible(t + i, j, n);
      float factor = 1;
      if (used == 0) {
        p[lane_number()] = p[lane_number() + kWarp] = 0;
      } else {
        factor = exponents(head, p, used, top + i, total + i);
        if (a.dropout > 0) {
          const float* kept = head.factors(t + i, j, used, drawn);
          for (int e = lane_number(); e < used; e += kWarp) p[e] *= kept[e];
        }
      }
      if (lane_number() == 0) shrink[i] = factor;
    }
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if (c * kTileColumns >= a.width) break;
      __syncthreads();
      head.load<kTileKeys>(right, a.v, j, n, c);
      __syncthreads();
      float tile[I][J] = {};
      add_products(tile, score, kScorePitch, 1, right, 1, kChunkPitch, int(n));
#pragma unroll
      for (int i = 0; i < I; ++i) {
#pragma unroll
        for (int k = 0; k < J; ++k) {
          sum[c][i][k] = sum[c][i][k] * shrink[down() + kDown * i] + tile[i][k];
        }
      }
    }
  }
  __syncthreads();
  if (lse && threadIdx.x < m) {
    const float all = total[threadIdx.x];
    lse[head.unit * a.queries + t + threadIdx.x] = all > 0 ? top[threadIdx.x] + log(all) : 0;
  }
  if (!out.data) return;
  each_result<kChunks, kTileQueries>(m, a.width, [&](int row, int column, int c, int i, int k) {
    const float inverse = total[row] > 0 ? 1 / total[row] : 0;
    store1(out, head.at(out, t + row) + column, sum[c][i][k] * inverse);
  });
}

void run_attention(const KernelArgs& a) {
  const AttentionOperands operands = attention_operands(a.in_spec, kAttentionQ);
  const CudaAttention call = cuda_attention(a, operands, kAttentionQ);
  const HeadRows out = head_rows(a.out[0], operands, call.heads, operands.columns);
  const Cores cores = *static_cast<const Cores*>(a.state);
  if (cores != Cores::none) return attention_on_cores(cores, a, call, out, a.output(1));
  const int64_t tiles = blocks_of(call.queries, kTileQueries);
  constexpr size_t kShared = sizeof(float) * (kTileQueries * (kChunkPitch + kScorePitch + 3) +
                                              kTileKeys * kChunkPitch + kTileWarps * kDrawn);
  by_chunks(call.width, [&](auto chunks) {
    launch(attention_kernel<decltype(chunks)::value>, {tiles * call.batch * call.heads},
           kTileThreads, kShared, stream_of(a), call, out, a.output(1), tiles);
  });
}

// ---- backward: probabilities computed again, tile by tile (algorithm 4) ----
//
// One kernel goes through the queries for a tile of keys (dk, dv), one through the keys for a tile
// of queries (dq), so no block adds to what another block adds to. The latter runs first and makes
// the deltas of its queries.

// Where nobody wants dq.
__global__ void attention_delta_kernel(AttentionGrad a) {
  const int64_t row = row_of_warp(), queries = a.call.queries;
  if (row >= queries * a.call.batch * a.call.heads) return;
  make_deltas(a, CudaHead(a.call, row / queries), row % queries, 1);
}

// The block's shared memory.
struct Tiles {
  float *left, *right, *score, *slope, *drawn;

  __device__ Tiles() {
    left = shared_memory<float>();
    right = left + kTileQueries * kChunkPitch;
    score = right + kTileKeys * kChunkPitch;
    slope = score + kTileQueries * kScorePitch;
    drawn = slope + kTileQueries * kScorePitch + warp_number() * kDrawn;
  }
};
constexpr size_t kShared = sizeof(float) * (kTileQueries * (kChunkPitch + 2 * kScorePitch) +
                                            kTileKeys * kChunkPitch + kTileWarps * kDrawn);

// score = p m and slope = ds of queries [t, t + m) and keys [j, j + n); zero where masked.
__device__ void slopes(const AttentionGrad& a, const CudaHead& head, const Tiles& s, int64_t t,
                       int64_t m, int64_t j, int64_t n) {
  const float scale = a.call.scale;
  score_tile(head, s.score, s.left, s.right, a.call.q, t, m, a.call.k, j, n);
  score_tile(head, s.slope, s.left, s.right, a.dout, t, m, a.call.v, j, n);
  __syncthreads();
  for (int i = warp_number(); i < m; i += kTileWarps) {
    const int64_t used = head.visible(t + i, j, n), row = head.unit * a.call.queries + t + i;
    const float level = a.lse[row], delta = a.delta[row];
    const float* factor = a.call.dropout > 0 ? head.factors(t + i, j, used, s.drawn) : nullptr;
    for (int e = lane_number(); e < kTileKeys; e += kWarp) {
      float p = 0, ds = 0;
      if (e < used) {
        p = exp(s.score[i * kScorePitch + e] * scale - level);
        const float dp = s.slope[i * kScorePitch + e];
        ds = p * ((factor ? dp * factor[e] : dp) - delta) * scale;
        if (factor) p *= factor[e];
      }
      s.score[i * kScorePitch + e] = p, s.slope[i * kScorePitch + e] = ds;
    }
  }
  __syncthreads();
}

// dk and dv of a tile of keys: a block each.
template <int kChunks>
__global__ void __launch_bounds__(kTileThreads)
    attention_keys_grad_kernel(AttentionGrad a, int64_t tiles) {
  const Tiles s;
  const CudaHead head(a.call, blockIdx.x / tiles);
  const int64_t j = blockIdx.x % tiles * kTileKeys;
  const int64_t n = head.limit <= j ? 0 : head.limit - j < kTileKeys ? head.limit - j : kTileKeys;
  constexpr int I = kTileKeys / kDown, J = kTileColumns / kAcross;
  float dk[kChunks][I][J] = {}, dv[kChunks][I][J] = {};
  const int64_t queries = n == 0 ? 0 : a.call.queries;
  for (int64_t t = a.call.causal ? j : 0; t < queries; t += kTileQueries) {
    const int64_t m = queries - t < kTileQueries ? queries - t : kTileQueries;
    slopes(a, head, s, t, m, j, n);
    auto add = [&](float(&sum)[I][J], const float* weights, const HeadRows& rows, int c) {
      __syncthreads();
      head.load<kTileQueries>(s.left, rows, t, m, c);
      __syncthreads();
      float tile[I][J] = {};
      add_products(tile, weights, 1, kScorePitch, s.left, 1, kChunkPitch, int(m));
#pragma unroll
      for (int i = 0; i < I; ++i) {
#pragma unroll
        for (int k = 0; k < J; ++k) sum[i][k] += tile[i][k];
      }
    };
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if (c * kTileColumns >= a.call.width) break;
      if (a.dv.data) add(dv[c], s.score, a.dout, c);
      if (a.dk.data) add(dk[c], s.slope, a.call.q, c);
    }
  }
  each_result<kChunks, kTileKeys>(a.call.keys - j, a.call.width,
                                  [&](int row, int column, int c, int i, int k) {
                                    const int64_t at = head.at(a.dk, j + row) + column;
                                    if (a.dk.data) store1(a.dk, at, row < n ? dk[c][i][k] : 0);
                                    if (a.dv.data) store1(a.dv, at, row < n ? dv[c][i][k] : 0);
                                  });
}

// dq of a tile of queries, whose sums over the key tiles are rounded once.
template <int kChunks>
__global__ void __launch_bounds__(kTileThreads)
    attention_queries_grad_kernel(AttentionGrad a, int64_t tiles) {
  const Tiles s;
  const CudaHead head(a.call, blockIdx.x / tiles);
  const int64_t t = blockIdx.x % tiles * kTileQueries;
  const int64_t m = a.call.queries - t < kTileQueries ? a.call.queries - t : kTileQueries;
  const int64_t end = a.call.causal && t + 1 < head.limit ? t + 1 : head.limit;
  constexpr int I = kTileQueries / kDown, J = kTileColumns / kAcross;
  float dq[kChunks][I][J] = {};
  constexpr int kOwn = kTileQueries / kTileWarps;  // queries of a warp
  make_deltas(a, head, t + warp_number() * kOwn, kOwn);
  for (int64_t j = 0; j < end; j += kTileKeys) {
    const int64_t n = head.limit - j < kTileKeys ? head.limit - j : kTileKeys;
    slopes(a, head, s, t, m, j, n);
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if (c * kTileColumns >= a.call.width) break;
      __syncthreads();
      head.load<kTileKeys>(s.right, a.call.k, j, n, c);
      __syncthreads();
      float tile[I][J] = {};
      add_products(tile, s.slope, kScorePitch, 1, s.right, 1, kChunkPitch, int(n));
#pragma unroll
      for (int i = 0; i < I; ++i) {
#pragma unroll
        for (int k = 0; k < J; ++k) dq[c][i][k] += tile[i][k];
      }
    }
  }
  each_result<kChunks, kTileQueries>(m, a.call.width,
                                     [&](int row, int column, int c, int i, int k) {
                                       store1(a.dq, head.at(a.dq, t + row) + column, dq[c][i][k]);
                                     });
}

// out, lse, dout, q, k, v | lengths, scalars -> dq, dk, dv, as q, k and v lie.
void run_attention_grad(const KernelArgs& a) {
  const AttentionOperands o = attention_operands(a.in_spec, kAttentionGradQ);
  const CudaAttention call = cuda_attention(a, o, kAttentionGradQ);
  const auto [dq, dk, dv] = o.in(a.out, 0);
  const AttentionGrad grad{.call = call,
                           .out = head_rows(a.in[0], o, call.heads, o.columns),
                           .dout = head_rows(a.in[2], o, call.heads, o.columns),
                           .dq = head_rows(dq, o, call.heads, o.q_pitch),
                           .dk = head_rows(dk, o, call.heads, o.kv_pitch),
                           .dv = head_rows(dv, o, call.heads, o.kv_pitch),
                           .lse = a.input(1),
                           .delta = reinterpret_cast<float*>(a.workspace)};
  const int64_t units = call.batch * call.heads;
  if (!dq) {
    launch(attention_delta_kernel, {blocks_of(units * call.queries, kRowsPerBlock)}, a, grad);
  }
  const Cores cores = *static_cast<const Cores*>(a.state);
  if (cores != Cores::none) return attention_grad_on_cores(cores, a, grad);
  by_chunks(call.width, [&](auto chunks) {
    if (grad.dq.data) {
      const int64_t tiles = blocks_of(call.queries, kTileQueries);
      launch(attention_queries_grad_kernel<decltype(chunks)::value>, {units * tiles}, kTileThreads,
             kShared, stream_of(a), grad, tiles);
    }
    if (grad.dk.data || grad.dv.data) {
      const int64_t tiles = blocks_of(call.keys, kTileKeys);
      launch(attention_keys_grad_kernel<decltype(chunks)::value>, {units * tiles}, kTileThreads,
             kShared, stream_of(a), grad, tiles);
    }
  });
}

// Which kernels take it: in the state of both operators.
Prepared prepare_for(const Device& device, const AttentionOperands& o, const Attrs& attrs) {
  const int64_t width = o.columns / attrs.as<AttentionAttrs>().heads;
  const Cores cores = cores_for(device, o.type, width);
  return {.state = std::make_shared<Cores>(cores),
          .by = cores == Cores::none ? "kernels in f32" : "tensor cores"};
}
Prepared prepare_attention(const Device& device, SpecSpan in, SpecSpan, const Attrs& attrs) {
  return prepare_for(device, attention_operands(in, kAttentionQ), attrs);
}
Prepared prepare_attention_grad(const Device& device, SpecSpan in, SpecSpan, const Attrs& attrs) {
  Prepared prepared = prepare_for(device, attention_operands(in, kAttentionGradQ), attrs);
  prepared.workspace = in[1].numel() * int64_t(sizeof(float));
  return prepared;
}

}  // namespace

const Backend attention_cuda{.run = run_attention, .prepare = prepare_attention};
const Backend attention_grad_cuda{.run = run_attention_grad, .prepare = prepare_attention_grad};

}  // namespace pal
