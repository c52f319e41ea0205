// Attention's products over source positions, in the order of the CPU's sums: where a sum goes down
// the positions, a thread has a column.
#include "ops/attention/attention_context.h"
#include "ops/attention/cuda_scores.h"
#include "ops/kernels/operands.h"

namespace pal {
namespace {

struct Dot {
  PAL_HD float operator()(float key, float query, float) const { return key * query; }
};
void run_dot_score(const KernelArgs& a) { run_score(a, Dot{}); }

// ---- context: c[b,h] = sum_s w[s,b] v[s,b,h], a thread a column ----

template <class T>
__global__ void context_kernel(T* y, const T* weights, const T* values, ScoreExtents e) {
  const int64_t i = thread_number();  // b * width + h
  if (i >= e.batch * e.width) return;
  const int64_t b = divide(i, e.width);
  float sum = 0;
#pragma unroll 4
  for (int64_t s = 0; s < e.steps; ++s) {
    const float w = load(weights, s * e.batch + b);
    if (w != 0) sum += w * load(values, s * e.batch * e.width + i);
  }
  store(y, i, sum);
}
void run_context(const KernelArgs& a) {
  const ScoreExtents e = extents_of(a.in_spec[1]);
  by_float_type(a.in_spec[1].dtype, [&]<class T>(T) {
    launch(context_kernel<T>, {blocks_of(e.batch * e.width, kColumnThreads)}, kColumnThreads, a,
           a.output<T>(0), a.input<T>(0), a.input<T>(1), e);
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
