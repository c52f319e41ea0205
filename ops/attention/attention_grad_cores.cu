// attention's gradient on tensor cores (FlashAttention-2: Dao 2023, algorithm 2), the probabilities
// computed again from the scores and lse: p = e^(s - lse), ds = p (m dout v^T - delta). One kernel
// has 64 keys a block and goes through the queries (dk, dv), one 64 queries and the keys (dq), so
// no block adds to what another adds to. p and ds are rounded once, as factors; what all terms of a
// sum are multiplied by is applied to the sum.
#include "ops/attention/cuda_attention_cores.h"

namespace pal {
namespace {

// dk and dv. Scores are transposed: a warp has 16 keys, a lane's columns are queries.
template <class S> struct KeysGradTiles {
  static constexpr int kOwn = kCoreRows * S::kPitch, kTile = S::kQueries * S::kPitch;  // words
  static constexpr int kPassing = 2 * kTile + 2 * S::kQueries;  // queries, dout, levels, deltas
  static constexpr size_t kBytes = size_t(2 * kOwn + S::kQueryTiles * kPassing) * sizeof(uint32_t);
  static_assert(kBytes <= 48 << 10);
};

// Whether elements of a warp's keys [j, j + 16) and the tile of queries from t on are kept: lanes
// draw for a query each, for all of the keys or, where there are more lanes than queries, for half.
template <int kQueries> struct KeptColumns {
  uint32_t mine = ~0u;

  __device__ KeptColumns(const CoreDropout& drop, const CudaHead& head, int64_t t, int64_t j) {
    if (!drop.on()) return;
    constexpr int kLanes = kWarp / kQueries, kKeys = kWarpRows / kLanes;
    const int lane = lane_number(), part = lane / kQueries;
    mine = drop.bits<kKeys>((head.unit * head.a.queries + t + lane % kQueries) * head.a.keys + j +
                            part * kKeys);
    if constexpr (kLanes == 2) {  // the first half of the lanes is asked
      mine = (mine & ((1u << kKeys) - 1)) | __shfl_xor_sync(kAllLanes, mine, kQueries) << kKeys;
    }
  }
  // Bits of the lane's two rows, 0 and 8 further, of a column; by all lanes.
  __device__ uint32_t column(int c) const { return __shfl_sync(kAllLanes, mine, c) >> core_row(); }
};

template <class S>
__global__ void __launch_bounds__(kCoreThreads, S::kGradBlocks)
    attention_keys_grad_cores_kernel(AttentionGrad a, int64_t tiles) {
  if constexpr (kHasMma) {
    using M = typename S::Mma;
    using T = KeysGradTiles<S>;
    uint32_t* shared = shared_memory<uint32_t>();
    const CudaHead head(a.call, blockIdx.x / tiles);
    const CoreDropout drop{a.call};
    const int first = int(blockIdx.x % tiles) * kCoreRows;
    const int j = first + warp_number() * kWarpRows;
    const int queries = head.limit <= first ? 0 : int(a.call.queries);
    const float scale = a.call.scale * kLog2E, kept_scale = drop.scale();
    if (queries) {
      S::template load<kCoreRows>(head, shared, a.call.k, first, head.limit - first);
      S::template load<kCoreRows>(head, shared + T::kOwn, a.call.v, first, head.limit - first);
    }
    const uint32_t* keys = shared + warp_number() * kWarpRows * S::kPitch;
    const uint32_t* values = keys + T::kOwn;
    auto fetch = [&](uint32_t* to, int t) {
      S::template load<S::kQueries>(head, to, a.call.q, t, queries - t);
      S::template load<S::kQueries>(head, to + T::kTile, a.dout, t, queries - t);
      if (threadIdx.x < S::kQueries) {
        float* level = reinterpret_cast<float*>(to + 2 * T::kTile) + threadIdx.x;
        const int row = t + int(threadIdx.x);
        // Of more rows than these 32 bits count, no card holds the queries.
        const unsigned at = unsigned(head.unit) * unsigned(queries) + unsigned(row);
        level[0] = row < queries ? a.lse[at] * kLog2E : 0;  // beyond, query and dout are zero
        level[S::kQueries] = row < queries ? a.delta[at] : 0;
      }
    };
    float dk[S::kColumns][4] = {}, dv[S::kColumns][4] = {};
    const int begin = a.call.causal ? first : 0;
    uint32_t* const passing = shared + 2 * T::kOwn;
    int place = 0;
    if (begin < queries) fetch(passing, begin);
    for (int t = begin; t < queries; t += S::kQueries) {
      const uint32_t* query = passing + place;
      const uint32_t* dout = query + T::kTile;
      const float* level = reinterpret_cast<const float*>(dout + T::kTile);
      const bool more = t + S::kQueries < queries;
      wait_for_copies();
      __syncthreads();  // the tile is there, and the one before has been read
      if (S::kQueryTiles > 1) {
        place = T::kPassing - place;
        if (more) fetch(passing + place, t + S::kQueries);
      }
      float p[S::kQueries / 8][4] = {}, ds[S::kQueries / 8][4] = {};
      multiply_rows<M, S::kSteps>(
          p, [&](uint32_t* left, int s) { load_left(left, keys, S::kPitch, s); }, query, S::kPitch);
      multiply_rows<M, S::kSteps>(
          ds, [&](uint32_t* left, int s) { load_left(left, values, S::kPitch, s); }, dout,
          S::kPitch);
      const KeptColumns<S::kQueries> kept(drop, head, t, j);
      const bool masked = a.call.causal && t < j + kWarpRows;
#pragma unroll
      for (int n = 0; n < S::kQueries / 8; ++n) {
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const int column = 8 * n + core_column() + k;
          const float top = level[column], delta = level[S::kQueries + column];
          const uint32_t bits = drop.on() ? kept.column(column) : ~0u;
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float& x = p[n][2 * i + k];
            float& slope = ds[n][2 * i + k];
            x = exp2_fast(fmaf(x, scale, -top));
            if (masked && j + core_row() + 8 * i > t + column) x = 0;
            const bool here = bits >> (8 * i) & 1;
            slope = x * ((here ? slope * kept_scale : 0) - delta);
            if (!here) x = 0;
          }
        }
      }
      if (a.dv.data) multiply_columns<M>(dv, p, dout, S::kPitch);
      if (a.dk.data) multiply_columns<M>(dk, ds, query, S::kPitch);
      if (S::kQueryTiles == 1 && more) {
        __syncthreads();
        fetch(passing, t + S::kQueries);
      }
    }
    auto store = [&](const HeadRows& to, float(&sums)[S::kColumns][4], float factor) {
      each_element(sums, [&](int i, int, float& x) {
        // Nobody looks at what is beyond the length, whatever came of it here.
        x = j + core_row() + 8 * i < head.limit ? x * factor : 0;
      });
      if (to.data) store_rows(to, head, j, a.call.keys, sums);
    };
    store(a.dk, dk, a.call.scale);
    store(a.dv, dv, kept_scale);
  } else {
    no_tensor_cores();
  }
}

// dq.
template <class S>
__global__ void __launch_bounds__(kCoreThreads, S::kGradBlocks)
    attention_queries_grad_cores_kernel(AttentionGrad a, int64_t tiles) {
  if constexpr (kHasMma) {
    using M = typename S::Mma;
    constexpr int kTile = KeyTiles<S, S::kGradKeys>::kTile;
    uint32_t* shared = shared_memory<uint32_t>();
    const CudaHead head(a.call, blockIdx.x / tiles);
    const CoreDropout drop{a.call};
    const int first = int(blockIdx.x % tiles) * kCoreRows;
    const int t = first + warp_number() * kWarpRows;
    const auto last = int(head.visible(first + kCoreRows - 1, 0, a.call.keys));
    const float scale = a.call.scale * kLog2E, kept_scale = drop.scale();
    uint32_t query[S::kSteps][4], dout[S::kSteps][4];
    load_fragments<S>(query, head, shared, a.call.q, first);
    load_fragments<S>(dout, head, shared, a.dout, first);
    make_deltas(a, head, t, kWarpRows);
    float level[2], delta[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int64_t row = t + core_row() + 8 * i;
      const bool there = row < a.call.queries;
      level[i] = there ? a.lse[head.unit * a.call.queries + row] * kLog2E : 0;
      delta[i] = there ? a.delta[head.unit * a.call.queries + row] : 0;
    }
    float dq[S::kColumns][4] = {};
    KeyTiles<S, S::kGradKeys> tiles_of_keys(head, shared, a.call.k, a.call.v, last);
    for (int j = 0; j < last; j += S::kGradKeys) {
      const uint32_t* keys = tiles_of_keys.at(j);
      const KeptRows<S::kGradKeys> kept(drop, head, t, j);
      float score[S::kGradKeys / 8][4] = {}, ds[S::kGradKeys / 8][4] = {};
      multiply_rows<M, S::kSteps>(score, held(query), keys, S::kPitch);
      multiply_rows<M, S::kSteps>(ds, held(dout), keys + kTile, S::kPitch);
      mask_scores(score, head, t, j);
      if (drop.on()) {
        each_element(
            ds, [&](int i, int column, float& x) { x = kept(i, column) ? x * kept_scale : 0; });
      }
#pragma unroll
      for (int n = 0; n < S::kGradKeys / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float p = exp2_fast(fmaf(score[n][i], scale, -level[i / 2]));
          ds[n][i] = p * (ds[n][i] - delta[i / 2]);
        }
      }
      multiply_columns<M>(dq, ds, keys, S::kPitch);
    }
    each_element(dq, [&](int, int, float& x) { x *= a.call.scale; });
    store_rows(a.dq, head, t, a.call.queries, dq);
  } else {
    no_tensor_cores();
  }
}

}  // namespace

void attention_grad_on_cores(Cores cores, const KernelArgs& a, const AttentionGrad& grad) {
  const CudaAttention& call = grad.call;
  const int64_t units = call.batch * call.heads;
  by_core_shape(cores, call.width, [&](auto shape) {
    using S = decltype(shape);
    if (grad.dq.data) {  // first: it makes the deltas
      const int64_t tiles = blocks_of(call.queries, kCoreRows);
      launch(attention_queries_grad_cores_kernel<S>, {units * tiles}, kCoreThreads,
             S::bytes(S::kGradKeys), stream_of(a), grad, tiles);
    }
    if (grad.dk.data || grad.dv.data) {
      const int64_t tiles = blocks_of(call.keys, kCoreRows);
      launch(attention_keys_grad_cores_kernel<S>, {units * tiles}, kCoreThreads,
             KeysGradTiles<S>::kBytes, stream_of(a), grad, tiles);
    }
  });
}

}  // namespace pal
