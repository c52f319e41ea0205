// What the kernels over source positions share, time-major (S positions, batch B, width): extents,
// and a score f(key, query, v) summed over the width, a warp for every (s, b).
#pragma once
#include "ops/kernels/cuda_rows.h"

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
template <class F> void run_score(const KernelArgs& a, F f) {
  const ScoreExtents e = extents_of(a.in_spec[0]);
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(score_kernel<T, F>, {blocks_of(e.steps * e.batch, kRowsPerBlock)}, a, a.output<T>(0),
           a.input<T>(0), a.input<T>(1), a.input(2), e, f);
  });
}

}  // namespace pal
