// attention_grad: probabilities computed again, tile by tile (Dao et al. 2022, algorithm 4). One
// kernel goes through the queries for a tile of keys (dk, dv), one through the keys for a tile of
// queries (dq), so nobody adds to what another block adds to. Formulas:
// ops/attention/attention_kernel.cc.
#include "ops/attention/cuda_attention.h"
#include "ops/kernels/cuda.h"
#include "ops/kernels/math.h"

namespace pal {
namespace {

struct AttentionGrad {
  CudaAttention call;
  Stored out, dout, dq, dk, dv;
  const float* lse;
  float* delta;  // (B, H, T): dout . out
};

__global__ void attention_delta_kernel(AttentionGrad a) {
  const int64_t row = row_of_warp(), queries = a.call.queries;
  if (row >= queries * a.call.batch * a.call.heads) return;
  const int64_t at = CudaHead(a.call, row / queries).at(row % queries);
  const float sum = warp_row_sum(
      a.call.width, [&](int64_t e) { return load1(a.dout, at + e) * load1(a.out, at + e); });
  if (lane_number() == 0) a.delta[row] = sum;
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
    const float* factor =
        a.call.attrs.dropout > 0 ? head.factors(t + i, j, used, s.drawn) : nullptr;
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
  for (int64_t t = a.call.attrs.causal ? j : 0; t < queries; t += kTileQueries) {
    const int64_t m = queries - t < kTileQueries ? queries - t : kTileQueries;
    slopes(a, head, s, t, m, j, n);
    auto add = [&](float(&sum)[I][J], const float* weights, const Stored& rows, int c) {
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
#pragma unroll
  for (int i = 0; i < I; ++i) {
    const int row = down() + kDown * i;
    if (j + row >= a.call.keys) continue;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int k = 0; k < J; ++k) {
        const int column = c * kTileColumns + across() + kAcross * k;
        if (column >= a.call.width) continue;
        const int64_t at = head.at(j + row) + column;
        if (a.dk.data) store1(a.dk, at, row < n ? dk[c][i][k] : 0);
        if (a.dv.data) store1(a.dv, at, row < n ? dv[c][i][k] : 0);
      }
    }
  }
}

// x as it comes back from storage.
__device__ float rounded(DType type, float x) {
  switch (type) {
    case DType::bf16: return to_float(from_float<bf16>(x));
    case DType::f16: return to_float(from_float<f16>(x));
    default: return x;
  }
}

// dq of a tile of queries. The CPU adds up the key tiles' parts in dq itself.
template <int kChunks>
__global__ void __launch_bounds__(kTileThreads)
    attention_queries_grad_kernel(AttentionGrad a, int64_t tiles) {
  const Tiles s;
  const CudaHead head(a.call, blockIdx.x / tiles);
  const int64_t t = blockIdx.x % tiles * kTileQueries;
  const int64_t m = a.call.queries - t < kTileQueries ? a.call.queries - t : kTileQueries;
  const int64_t end = a.call.attrs.causal && t + 1 < head.limit ? t + 1 : head.limit;
  constexpr int I = kTileQueries / kDown, J = kTileColumns / kAcross;
  float dq[kChunks][I][J] = {};
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
        for (int k = 0; k < J; ++k) {
          dq[c][i][k] = rounded(a.dq.type, dq[c][i][k] + tile[i][k]);
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < I; ++i) {
    const int row = down() + kDown * i;
    if (row >= m) continue;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int k = 0; k < J; ++k) {
        const int column = c * kTileColumns + across() + kAcross * k;
        if (column < a.call.width) store1(a.dq, head.at(t + row) + column, dq[c][i][k]);
      }
    }
  }
}

// q, k, v, out, lse, dout | lengths, scalars -> dq, dk, dv.
void run(const KernelArgs& a) {
  const CudaAttention call = cuda_attention(a, 6);
  const AttentionGrad grad{.call = call,
                           .out = stored(a.in[3], a.in_spec[3]),
                           .dout = stored(a.in[5], a.in_spec[5], call.width),
                           .dq = stored(a.out[0], a.out_spec[0]),
                           .dk = stored(a.out[1], a.out_spec[1]),
                           .dv = stored(a.out[2], a.out_spec[2]),
                           .lse = a.input(4),
                           .delta = reinterpret_cast<float*>(a.workspace)};
  const int64_t units = call.batch * call.heads;
  launch(attention_delta_kernel, {blocks_of(units * call.queries, kRowsPerBlock)}, kThreads, 0,
         stream_of(a), grad);
  by_chunks(call.width, [&](auto chunks) {
    if (grad.dk.data || grad.dv.data) {
      const int64_t tiles = blocks_of(call.keys, kTileKeys);
      launch(attention_keys_grad_kernel<decltype(chunks)::value>, {units * tiles}, kTileThreads,
             kShared, stream_of(a), grad, tiles);
    }
    if (grad.dq.data) {
      const int64_t tiles = blocks_of(call.queries, kTileQueries);
      launch(attention_queries_grad_kernel<decltype(chunks)::value>, {units * tiles}, kTileThreads,
             kShared, stream_of(a), grad, tiles);
    }
  });
}
Prepared prepare(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  return {.workspace = in[4].numel() * int64_t(sizeof(float))};
}

}  // namespace

const Backend attention_grad_cuda{.run = run, .prepare = prepare};

}  // namespace pal
