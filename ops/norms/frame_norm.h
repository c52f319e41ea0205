// Batch normalisation of padded sequences over their valid frames alone.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef frame_norm_apply_op, frame_norm_grad_op, frame_norm_infer_op, frame_norm_op;
[[gnu::weak]] extern const Backend frame_norm_apply_cuda, frame_norm_grad_cuda,
    frame_norm_infer_cuda, frame_norm_cuda;

struct FrameNormAttrs {
  float eps = 1e-5f;
  bool batch_first = false;  // frames lie as (B, T, .., C) instead of (T, B, .., C)
  auto fields() const { return std::tuple{field("eps", eps), field("batch_first", batch_first)}; }
};

struct FrameNorm {
  Val y;
  // Per channel (C), no gradient flows through them: the valid frames' mean, 1/sqrt(variance +
  // eps), and the unbiased variance, which the running variance is moved towards.
  Val mean, rstd, variance;
};

// x (T, B, .., C), f32 gamma (C) and beta (C), lengths i32 (B) -> y = gamma (x - mean) rstd + beta,
// of x's type, for frames t < lengths[b], 0 beyond: a result depends on no padding, and what
// follows finds zeros there. Without a valid frame mean and variance are 0.
FrameNorm frame_norm(Val x, Val gamma, Val beta, Val lengths, FrameNormAttrs attrs = {});

// The same with given statistics. Not differentiable.
Val frame_norm_infer(Val x, Val gamma, Val beta, Val lengths, Val mean, Val variance,
                     FrameNormAttrs attrs = {});

}  // namespace pal
