// Batch normalisation over all axes but the last.
#pragma once
#include "core/op.h"
#include "core/rewrite.h"
#include "core/val.h"

namespace pal {

extern const OpDef batch_norm_apply_op, batch_norm_grad_op, batch_norm_infer_op, batch_norm_op,
    batch_norm_statistics_op;
extern const Rewrite batch_norm_apply_rewrite, batch_norm_in_parts;
[[gnu::weak]] extern const Backend batch_norm_apply_cuda, batch_norm_grad_cuda,
    batch_norm_infer_cuda, batch_norm_cuda, batch_norm_statistics_cuda;

struct BatchNormAttrs {
  float eps = 1e-5f;
  auto fields() const { return std::tuple{field("eps", eps)}; }
};
struct BatchNormApplyAttrs {
  bool relu = false;  // max(y, 0)
  auto fields() const { return std::tuple{field("relu", relu)}; }
};

struct BatchNorm {
  Val y;
  // Per channel (C), no gradient flows through them: the batch's mean, 1/sqrt(variance + eps), and
  // the unbiased variance, which the running variance is moved towards.
  Val mean, rstd, variance;
};

// x (.., C), f32 gamma (C), beta (C) -> y = gamma (x - mean) rstd + beta, of x's type, with the
// batch's own mean and (biased) variance. Running statistics are moved by updates of their own.
BatchNorm batch_norm(Val x, Val gamma, Val beta, float eps = 1e-5f);

// The same with given statistics: y = gamma (x - mean) / sqrt(variance + eps) + beta. Not
// differentiable.
Val batch_norm_infer(Val x, Val gamma, Val beta, Val mean, Val variance, float eps = 1e-5f);

}  // namespace pal
