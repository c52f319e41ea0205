// hold and its gradient, eight elements of a row a thread.
#include "ops/kernels/cuda_elements.h"
#include "ops/kernels/operands.h"
#include "ops/recurrent/hold.h"

namespace pal {
namespace {

// hold: y[b] = x[b] where t < lengths[b], else prev[b].
__global__ void hold_kernel(Stored y, Stored x, Stored prev, const int32_t* lengths, int64_t t,
                            int64_t rows, int64_t width) {
  const auto [row, j, at, n] = row_group(rows, width);
  if (n == 0) return;
  float v[kGroup];
  Stored from = x;  // both have its type
  if (t >= lengths[row]) from.data = prev.data, from.vector = prev.vector;
  load8(from, at, n, v);
  store8(y, at, n, v);
}
void run_hold(const KernelArgs& a) {
  const int64_t rows = a.in_spec[0].shape[0], width = trailing_numel(a.in_spec[0].shape, 1);
  launch(hold_kernel, grid_of_groups(rows * groups_of(width)), a,
         stored(a.out[0], a.out_spec[0], width), stored(a.in[0], a.in_spec[0], width),
         stored(a.in[1], a.in_spec[1], width), a.input<int32_t>(2), a.attrs.as<HoldAttrs>().t, rows,
         width);
}
// dx = dy where t < lengths[b], else 0; dprev the other way round, added to the sum.
__global__ void hold_grad_kernel(Stored dx, Stored dprev, Stored dy, Stored sum,
                                 const int32_t* lengths, int64_t t, int64_t rows, int64_t width) {
  const auto [row, j, at, n] = row_group(rows, width);
  if (n == 0) return;
  const bool live = t < lengths[row];
  float d[kGroup], x[kGroup], p[kGroup];
  load8(dy, at, n, d);
  if (sum.data) load8(sum, at, n, p);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    x[k] = live ? d[k] : 0;
    const float held = live ? 0 : d[k];
    p[k] = sum.data ? p[k] + held : held;
  }
  if (dx.data) store8(dx, at, n, x);
  if (dprev.data) store8(dprev, at, n, p);
}
void run_hold_grad(const KernelArgs& a) {
  const TensorSpec& spec = a.in_spec[0];
  const int64_t rows = spec.shape[0], width = trailing_numel(spec.shape, 1);
  launch(hold_grad_kernel, grid_of_groups(rows * groups_of(width)), a,
         stored(a.out[0], spec, width), stored(a.out[1], spec, width), stored(a.in[0], spec, width),
         stored(input_if_present(a, 2), spec, width), a.input<int32_t>(1),
         a.attrs.as<HoldAttrs>().t, rows, width);
}

}  // namespace

const Backend hold_cuda{.run = run_hold};
const Backend hold_grad_cuda{.run = run_hold_grad};

}  // namespace pal
