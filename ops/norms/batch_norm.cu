// batch_norm over all rows of channels, in its parts too.
#include "ops/kernels/operands.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/cuda_norm.h"
#include "ops/norms/norm_kernel.h"

namespace pal {
namespace {

struct AllRows {
  __device__ bool operator()(int64_t) const { return true; }
};

NormRows rows_of(const TensorSpec& x) {
  const int64_t channels = x.shape.back(), rows = x.numel() / channels;
  const int64_t per_chunk = batch_norm_rows(channels);
  return {rows, channels, per_chunk, blocks_of(rows, per_chunk)};
}
void run_batch_norm(const KernelArgs& a) {
  norm_forward(a, rows_of(a.in_spec[0]), AllRows{}, a.attrs.as<BatchNormAttrs>().eps);
}
void run_batch_norm_statistics(const KernelArgs& a) {
  norm_moments(a, rows_of(a.in_spec[0]), AllRows{}, a.attrs.as<BatchNormAttrs>().eps, nullptr,
               nullptr, nullptr, a.output(0), a.output(1), a.output(2));
}
void run_batch_norm_apply(const KernelArgs& a) {
  const NormRows r = rows_of(a.in_spec[0]);
  NormFinish finish{.relu = a.attrs.as<BatchNormApplyAttrs>().relu};
  if (const void* residual = input_if_present(a, 5)) {
    finish.residual = stored(residual, a.in_spec[5], r.channels);
  }
  normalize_elements(a, r, AllRows{}, a.input(3), a.input(2), FromDeviation{a.input(1), a.input(4)},
                     finish);
}
void run_batch_norm_infer(const KernelArgs& a) {
  normalize_elements(a, rows_of(a.in_spec[0]), AllRows{}, a.input(3), a.input(2),
                     FromVariance{a.input(1), a.input(4), a.attrs.as<BatchNormAttrs>().eps});
}
void run_batch_norm_grad(const KernelArgs& a) {
  norm_gradient(a, rows_of(a.in_spec[0]), AllRows{}, a.input(3), a.input(4));
}
Prepared prepare_batch_norm_rows(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  return prepare_norm(rows_of(in[0]));
}

}  // namespace

const Backend batch_norm_apply_cuda{.run = run_batch_norm_apply};
const Backend batch_norm_cuda{.run = run_batch_norm, .prepare = prepare_batch_norm_rows};
const Backend batch_norm_grad_cuda{.run = run_batch_norm_grad, .prepare = prepare_batch_norm_rows};
const Backend batch_norm_infer_cuda{.run = run_batch_norm_infer};
const Backend batch_norm_statistics_cuda{.run = run_batch_norm_statistics,
                                         .prepare = prepare_batch_norm_rows};

}  // namespace pal
