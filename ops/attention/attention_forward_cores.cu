// attention on tensor cores (FlashAttention-2: Dao 2023, algorithm 1): a block has 64 queries,
// whose fragments stay in registers, and goes through the keys. Probabilities are rounded once, as
// factors of the second product, and the result once, when it is stored.
#include "ops/attention/cuda_attention_cores.h"

namespace pal {
namespace {

// A row's largest score so far, and the sum of its probabilities, this lane's part.
struct SoftmaxRow {
  float top = -__builtin_huge_valf(), total = 0;
};

// scores -> probabilities, and what the sums so far are to be multiplied by. `scale` makes a score
// an exponent of 2.
template <int kBlocks>
__device__ void add_scores(float (&p)[kBlocks][4], SoftmaxRow (&row)[2], float (&shrink)[2],
                           float scale) {
  float most[2] = {row[0].top, row[1].top};
  each_element(p, [&](int i, int, float& x) { most[i] = x > most[i] ? x : most[i]; });
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    most[i] = row_most(most[i]);
    shrink[i] = exp2_fast((row[i].top - most[i]) * scale);
    row[i].top = most[i], row[i].total *= shrink[i];
  }
  const float level[2] = {most[0] * scale, most[1] * scale};
  each_element(p, [&](int i, int, float& x) {
    x = exp2_fast(fmaf(x, scale, -level[i]));
    row[i].total += x;
  });
}

template <class S, int kKeys>
__global__ void __launch_bounds__(kCoreThreads, S::kForwardBlocks)
    attention_cores_kernel(CudaAttention a, HeadRows out, float* lse, int64_t tiles) {
  if constexpr (kHasMma) {
    using M = typename S::Mma;
    constexpr int kTile = KeyTiles<S, kKeys>::kTile;
    uint32_t* shared = shared_memory<uint32_t>();
    const CudaHead head(a, blockIdx.x / tiles);
    const CoreDropout drop{a};
    const int first = int(blockIdx.x % tiles) * kCoreRows;
    const int t = first + warp_number() * kWarpRows;
    const bool idle = t >= a.queries;
    const auto last = int(head.visible(first + kCoreRows - 1, 0, a.keys));
    uint32_t query[S::kSteps][4];
    load_fragments<S>(query, head, shared, a.q, first);
    float sum[S::kColumns][4] = {};
    SoftmaxRow row[2];
    KeyTiles<S, kKeys> tiles_of_keys(head, shared, a.k, a.v, last);
    for (int j = 0; j < last; j += kKeys) {
      const uint32_t* keys = tiles_of_keys.at(j);
      if (idle) continue;  // the whole warp: it fetches for others
      const KeptRows<kKeys> kept(drop, head, t, j);
      float p[kKeys / 8][4] = {}, shrink[2];
      multiply_rows<M, S::kSteps>(p, held(query), keys, S::kPitch);
      mask_scores(p, head, t, j);
      add_scores(p, row, shrink, a.scale * kLog2E);
      each_element(sum, [&](int i, int, float& x) { x *= shrink[i]; });
      if (drop.on()) {
        each_element(p, [&](int i, int column, float& x) { x = kept(i, column) ? x : 0; });
      }
      multiply_columns<M>(sum, p, keys + kTile, S::kPitch);
    }
    const float kept_scale = drop.scale();
    float inverse[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float total = row_total(row[i].total);
      const int64_t query_row = t + core_row() + 8 * i;
      inverse[i] = total > 0 ? kept_scale / total : 0;
      if (lse && core_column() == 0 && query_row < a.queries) {
        lse[head.unit * a.queries + query_row] = total > 0 ? row[i].top * a.scale + log(total) : 0;
      }
    }
    if (!out.data) return;
    each_element(sum, [&](int i, int, float& x) { x *= inverse[i]; });
    // Rows of the result have nothing between them, so the unit says it all: registers are short.
    store_rows(out, head, t, a.queries, sum, [&](int64_t query_row) {
      return (query_row * a.batch * a.heads + head.unit) * a.width;
    });
  } else {
    no_tensor_cores();
  }
}

}  // namespace

void attention_on_cores(Cores cores, const KernelArgs& a, const CudaAttention& call,
                        const HeadRows& out, float* lse) {
  const int64_t tiles = blocks_of(call.queries, kCoreRows);
  by_core_shape(cores, call.width, [&](auto shape) {
    using S = decltype(shape);
    auto start = [&]<int kKeys>(std::integral_constant<int, kKeys>) {
      launch(attention_cores_kernel<S, kKeys>, {tiles * call.batch * call.heads}, kCoreThreads,
             S::bytes(kKeys), stream_of(a), call, out, lse, tiles);
    };
    if (call.keys <= kShortKeys) return start(std::integral_constant<int, kShortKeys>{});
    start(std::integral_constant<int, S::kKeys>{});
  });
}

}  // namespace pal
