// Attention's products over source positions, in the order of the CPU's sums: where a sum goes down
// the positions, a thread has columns of its own.
#include "ops/attention/attention_context.h"
#include "ops/attention/cuda_scores.h"
#include "ops/kernels/operands.h"

namespace pal {
namespace {

struct Dot {
  static constexpr bool kHasWeights = false;
  PAL_HD float operator()(float key, float query, float) const { return key * query; }
};
void run_dot_score(const KernelArgs& a) { run_score(a, Dot{}); }

// ---- context: c[b,h] = sum_s w[s,b] v[s,b,h], a warp some columns of one b ----

constexpr int64_t kContextSteps = 8;  // whose values are on their way at once

template <int N, class T>
__global__ void context_kernel(T* y, const T* weights, const T* values, ScoreExtents e) {
  const WarpColumns<N> mine(row_of_warp(), e.batch, e.width);
  const int64_t b = mine.unit, at = b * e.width + mine.column;
  float sum[N] = {};
  for (int64_t first = 0; first < e.steps; first += kWarp) {
    const int64_t step = first + lane_number();
    const bool there = b < e.batch && step < e.steps;
    const float weight_of_lane = there ? load(weights, step * e.batch + b) : 0;
    for (int64_t s = 0; s < kWarp && first + s < e.steps; s += kContextSteps) {
      float w[kContextSteps], v[kContextSteps][N];
#pragma unroll
      for (int k = 0; k < kContextSteps; ++k) {
        w[k] = __shfl_sync(kAllLanes, weight_of_lane, int(s) + k);
      }
      if (!mine.exists) continue;
#pragma unroll
      for (int k = 0; k < kContextSteps; ++k) {  // of a weight of zero, anything
        const int64_t from = w[k] != 0 ? first + s + k : 0;
        load_columns_at<N>(values + from * e.batch * e.width + at, v[k]);
      }
#pragma unroll
      for (int k = 0; k < kContextSteps; ++k) {
#pragma unroll
        for (int j = 0; j < N; ++j) {
          if (w[k] != 0) sum[j] += w[k] * v[k][j];
        }
      }
    }
  }
  if (mine.exists) store_columns_at<N>(y + at, sum);
}
void run_context(const KernelArgs& a) {
  const ScoreExtents e = extents_of(a.in_spec[1]);
  const bool aligned = are_columns_aligned(e.width, a.in[1], a.out[0]);
  by_float_type(a.in_spec[1].dtype, [&]<class T>(T) {
    with_columns<1, 4>(aligned ? 4 : 1, [&](auto n) {
      launch(context_kernel<n(), T>,
             {blocks_of(e.batch * warps_across<n()>(e.width), kRowsPerBlock)}, a, a.output<T>(0),
             a.input<T>(0), a.input<T>(1), e);
    });
  });
}

// ---- add_outer: sum[s,b,:] + w[s,b] x[b,:] ----

__global__ void add_outer_kernel(Stored y, Stored weights, Stored x, Stored sum, ScoreExtents e) {
  const auto [row, j, at, n] = row_group(e.steps * e.batch, e.width);
  if (n == 0) return;
  const float w = load1(weights, row);
  if (w == 0 && sum.data == y.data) return;
  float v[kGroup], old[kGroup];
  load8(x, (row - divide(row, e.batch) * e.batch) * e.width + j, n, v);
  if (sum.data) load8(sum, at, n, old);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    if (w == 0)
      v[k] = sum.data ? old[k] : 0;  // whatever x holds
    else
      v[k] = sum.data ? old[k] + w * v[k] : w * v[k];
  }
  store8(y, at, n, v);
}
void run_add_outer(const KernelArgs& a) {
  const ScoreExtents e = extents_of(a.out_spec[0]);
  launch(add_outer_kernel, grid_of_groups(e.steps * e.batch * groups_of(e.width)), a,
         stored(a.out[0], a.out_spec[0], e.width), stored(a.in[0], a.in_spec[0]),
         stored(a.in[1], a.in_spec[1], e.width),
         stored(input_if_present(a, 2), a.out_spec[0], e.width), e);
}

}  // namespace

const Backend add_outer_cuda{.run = run_add_outer};
const Backend attention_context_cuda{.run = run_context};
const Backend dot_score_cuda{.run = run_dot_score};

}  // namespace pal
