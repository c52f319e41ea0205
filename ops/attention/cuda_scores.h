// What the kernels over source positions share, time-major (S positions, batch B, width): extents,
// and a score f(key, query, v) summed over the width, a warp for every (s, b).
#pragma once
#include "ops/attention/scores.h"
#include "ops/kernels/cuda_columns.h"

namespace pal {

struct ScoreExtents {
  int64_t steps, batch, width;
};
inline ScoreExtents extents_of(const TensorSpec& wide) {
  return {wide.shape[0], wide.shape[1], wide.shape[2]};
}

template <class T, class F>
__global__ void score_kernel(T* y, const T* keys, const T* query, const float* v, ScoreExtents e,
                             F f) {
  const int64_t row = row_of_warp();
  if (row >= e.steps * e.batch) return;
  const T* k = keys + row * e.width;
  const T* q = query + (row - divide(row, e.batch) * e.batch) * e.width;
  const float sum =
      warp_row_sum(e.width, [&](int64_t j) { return f(load(k, j), load(q, j), v ? v[j] : 0); });
  if (lane_number() == 0) store(y, row, sum);
}
// The same with eight neighbours a lane, in rows of 16 bits and a multiple of eight: their sum has
// an order of its own, wherever the rows begin.
template <bool kAligned, class T, class F>
__global__ void wide_score_kernel(T* y, const T* keys, const T* query, const float* v,
                                  ScoreExtents e, F f) {
  const int64_t row = row_of_warp();
  if (row >= e.steps * e.batch) return;
  Stored k = whole_groups(keys), q = whole_groups(query), weights = whole_groups(v);
  k.vector = q.vector = weights.vector = kAligned;
  const int64_t key = row * e.width, from = (row - divide(row, e.batch) * e.batch) * e.width;
  float sum = 0;
#pragma unroll 2
  for (int64_t j = lane_number() * kGroup; j < e.width; j += kWarp * kGroup) {
    float a[kGroup], b[kGroup], c[kGroup];
    load8(k, key + j, kGroup, a);
    load8(q, from + j, kGroup, b);
    if constexpr (F::kHasWeights) load8(weights, j, kGroup, c);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) sum += f(a[i], b[i], F::kHasWeights ? c[i] : 0);
  }
  sum = warp_sum(sum);
  if (lane_number() == 0) store(y, row, sum);
}
template <class F> void run_score(const KernelArgs& a, F f) {
  const ScoreExtents e = extents_of(a.in_spec[0]);
  const float* v = F::kHasWeights ? a.input(2) : nullptr;
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    T* y = a.output<T>(0);
    const T *keys = a.input<T>(0), *query = a.input<T>(1);
    if (!is_wide_score(a.in_spec[0])) {
      return launch(score_kernel<T, F>, {blocks_of(e.steps * e.batch, kRowsPerBlock)}, a, y, keys,
                    query, v, e, f);
    }
    const auto start = [&](auto aligned) {
      launch(wide_score_kernel<aligned(), T, F>, {blocks_of(e.steps * e.batch, kRowsPerBlock)}, a,
             y, keys, query, v, e, f);
    };
    if (are_columns_aligned(e.width, keys, query, v))
      start(std::true_type{});
    else
      start(std::false_type{});
  });
}

}  // namespace pal
