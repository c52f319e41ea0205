// attention's gradient on tensor cores (FlashAttention-2: Dao 2023, algorithm 2), the probabilities
// computed again from the scores and lse: p = e^(s - lse), ds = p (m dout v^T - delta). One kernel
// has 64 keys a block and goes through the queries (dk, dv), one 64 queries and the keys (dq), so
// no block adds to what another adds to; where a head has no more than 64 keys, the first makes dq
// too. p and ds are rounded once, as factors; what all terms of a
// sum are multiplied by is applied to the sum.
#include "ops/attention/cuda_attention_cores.h"

namespace pal {
namespace {

// dk and dv. Scores are transposed: a warp has 16 keys, a lane's columns are queries.
template <class S> struct KeysGradTiles {
  static constexpr int kOwn = kCoreRows * S::kPitch, kTile = S::kQueries * S::kPitch;  // words
  static constexpr int kPassing = 2 * kTile + 2 * S::kQueries;  // queries, dout, levels, deltas
  static constexpr int kSlopePitch = S::kQueries / S::Mma::kPerWord + 4;
  static constexpr int kSlopes = 2 * kOwn + S::kQueryTiles * kPassing;  // where ds of a tile is
  static constexpr size_t bytes(bool whole) {
    return size_t(kSlopes + (whole ? kCoreRows * kSlopePitch : 0)) * sizeof(uint32_t);
  }
  static_assert(bytes(true) <= 48 << 10);
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

// dq of the tile of queries from t on, from ds (keys, queries) and all keys of the head: a warp has
// 16 queries and a part of the columns.
template <class S>
__device__ void make_queries_grad(const AttentionGrad& a, const CudaHead& head, int t,
                                  const uint32_t* slopes, const uint32_t* keys) {
  using M = typename S::Mma;
  constexpr int kPitch = KeysGradTiles<S>::kSlopePitch, kGroups = S::kQueries / kWarpRows;
  constexpr int kBlocks = S::kColumns * kGroups / (kCoreThreads / kWarp), kTerms = 8 * M::kTiles;
  const int row = warp_number() % kGroups * kWarpRows, block = warp_number() / kGroups * kBlocks;
  if (t + row >= a.call.queries) return;
  slopes += row / M::kPerWord, keys += 8 * block / M::kPerWord;
  float dq[kBlocks][4] = {};
  for (int s = 0; s < head.limit; s += kTerms) {
    uint32_t left[4];
    M::columns_as_left(left, slopes + s * kPitch, kPitch);
#pragma unroll
    for (int n = 0; n < kBlocks; n += 2) {
      uint32_t right[4];
      M::columns(right, keys + s * S::kPitch + 8 * n / M::kPerWord, S::kPitch);
      M::add(dq[n], left, right), M::add(dq[n + 1], left, right + 2);
    }
  }
  each_element(dq, [&](int, int, float& x) { x *= a.call.scale; });
  store_rows(a.dq, head, t + row, a.call.queries, dq, 8 * block);
}

// kWhole: a block has all keys of its head.
template <class S, bool kWhole>
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
    const int queries = !kWhole && head.limit <= first ? 0 : int(a.call.queries);
    const float scale = a.call.scale * kLog2E, kept_scale = drop.scale();
    const bool busy = j < head.limit;  // the whole warp; else it fetches for others
    if (queries) {
      S::template load<kCoreRows>(head, shared, a.call.k, first, head.limit - first);
      S::template load<kCoreRows>(head, shared + T::kOwn, a.call.v, first, head.limit - first);
    }
    const uint32_t* keys = shared + warp_number() * kWarpRows * S::kPitch;
    const uint32_t* values = keys + T::kOwn;
    auto fetch = [&](uint32_t* to, int t) {
      S::template load<S::kQueries>(head, to, a.call.q, t, queries - t);
      S::template load<S::kQueries>(head, to + T::kTile, a.dout, t, queries - t);
      constexpr int kLanes = kWhole ? 4 : 1;  // that a query has
      if (threadIdx.x < kLanes * S::kQueries) {
        float* level = reinterpret_cast<float*>(to + 2 * T::kTile) + threadIdx.x / kLanes;
        const int row = t + int(threadIdx.x) / kLanes;
        // Of more rows than these 32 bits count, no card holds the queries.
        const unsigned at = unsigned(head.unit) * unsigned(queries) + unsigned(row);
        float delta = 0;
        if constexpr (kWhole)
          delta = delta_of<kLanes>(a, head, row < queries ? row : queries - 1);
        else if (row < queries)
          delta = a.delta[at];
        level[0] = row < queries ? a.lse[at] * kLog2E : 0;  // beyond, query and dout are zero
        level[S::kQueries] = row < queries ? delta : 0;
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
      if (busy) {
        float p[S::kQueries / 8][4] = {}, ds[S::kQueries / 8][4] = {};
        multiply_rows<M, S::kSteps>(
            p, [&](uint32_t* left, int s) { load_left(left, keys, S::kPitch, s); }, query,
            S::kPitch);
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
        if constexpr (kWhole) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int key = j + core_row() + 8 * i;
            const bool there = key < head.limit;
#pragma unroll
            for (int n = 0; n < S::kQueries / 8; ++n) {
              M::put2(shared + T::kSlopes + key * T::kSlopePitch, 8 * n + core_column(),
                      there ? ds[n][2 * i] : 0, there ? ds[n][2 * i + 1] : 0);
            }
          }
        }
      }
      if constexpr (kWhole) {
        __syncthreads();  // ds is there
        if (a.dq.data) make_queries_grad<S>(a, head, t, shared + T::kSlopes, shared);
      }
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

// dout . out of the warp's 16 queries from t on, two lanes a query: read again when all are here.
__device__ void make_core_deltas(const AttentionGrad& a, const CudaHead& head, int64_t t) {
  if (t >= a.call.queries) return;
  const int64_t last = a.call.queries - 1, row = t + lane_number() / 2;
  const float delta = delta_of<2>(a, head, row < last ? row : last);
  if (row <= last && lane_number() % 2 == 0) a.delta[head.unit * a.call.queries + row] = delta;
  __syncwarp();
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
    const bool idle = t >= a.call.queries;
    const auto last = int(head.visible(first + kCoreRows - 1, 0, a.call.keys));
    const float scale = a.call.scale * kLog2E, kept_scale = drop.scale();
    uint32_t query[S::kSteps][4], dout[S::kSteps][4];
    load_fragments<S>(query, head, shared, a.call.q, first);
    load_fragments<S>(dout, head, shared, a.dout, first);
    make_core_deltas(a, head, t);
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
      if (idle) continue;  // the whole warp: it fetches for others
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
    if (call.keys <= kCoreRows) {
      launch(attention_keys_grad_cores_kernel<S, true>, {units}, kCoreThreads,
             KeysGradTiles<S>::bytes(true), stream_of(a), grad, int64_t(1));
      return;
    }
    if (grad.dq.data) {  // first: it makes the deltas
      const int64_t tiles = blocks_of(call.queries, kCoreRows);
      launch(attention_queries_grad_cores_kernel<S>, {units * tiles}, kCoreThreads,
             S::bytes(S::kGradKeys), stream_of(a), grad, tiles);
    }
    if (grad.dk.data || grad.dv.data) {
      const int64_t tiles = blocks_of(call.keys, kCoreRows);
      launch(attention_keys_grad_cores_kernel<S, false>, {units * tiles}, kCoreThreads,
             KeysGradTiles<S>::bytes(false), stream_of(a), grad, tiles);
    }
  });
}

}  // namespace pal
