// batch_norm over all rows of channels, in its parts too.
#include "ops/kernels/operands.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/cuda_norm.h"
#include "ops/norms/cuda_norm_grad.h"
#include "ops/norms/cuda_norm_rows.h"

namespace pal {
namespace {

void run_batch_norm(const KernelArgs& a) {
  norm_forward(a, all_norm_rows(a.in_spec[0]), EveryRow{}, a.attrs.as<BatchNormAttrs>().eps);
}
void run_batch_norm_statistics(const KernelArgs& a) {
  norm_moments(a, all_norm_rows(a.in_spec[0]), EveryRow{}, a.attrs.as<BatchNormAttrs>().eps,
               {.mean_out = a.output(0), .rstd_out = a.output(1), .variance_out = a.output(2)});
}
void run_batch_norm_apply(const KernelArgs& a) {
  const NormRows r = all_norm_rows(a.in_spec[0]);
  const Stored residual = stored(input_if_present(a, 5), a.in_spec[0], r.channels);
  normalize_elements(a, r, EveryRow{}, a.input(3), a.input(2),
                     FromDeviation{floats(a.input(1), r.channels), floats(a.input(4), r.channels)},
                     residual, a.attrs.as<BatchNormApplyAttrs>().relu);
}
void run_batch_norm_infer(const KernelArgs& a) {
  const NormRows r = all_norm_rows(a.in_spec[0]);
  normalize_elements(a, r, EveryRow{}, a.input(3), a.input(2),
                     FromVariance{floats(a.input(1), r.channels), floats(a.input(4), r.channels),
                                  a.attrs.as<BatchNormAttrs>().eps});
}
void run_batch_norm_grad(const KernelArgs& a) {
  norm_gradient(a, all_norm_rows(a.in_spec[0]), EveryRow{}, a.input(3), a.input(4));
}
Prepared prepare_batch_norm_rows(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  return prepare_norm(all_norm_rows(in[0]));
}

}  // namespace

const Backend batch_norm_apply_cuda{.run = run_batch_norm_apply};
const Backend batch_norm_cuda{.run = run_batch_norm, .prepare = prepare_batch_norm_rows};
const Backend batch_norm_grad_cuda{.run = run_batch_norm_grad, .prepare = prepare_batch_norm_rows};
const Backend batch_norm_infer_cuda{.run = run_batch_norm_infer};
const Backend batch_norm_statistics_cuda{.run = run_batch_norm_statistics,
                                         .prepare = prepare_batch_norm_rows};

}  // namespace pal
