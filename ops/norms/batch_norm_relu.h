// Batch norm whose result goes through relu as it is made, with what a residual block adds before
// that; and its gradient, which sees by x where relu let pass. No model records these: passes put
// them where the nodes stand (fuse_epilogues and fuse_first of memory/passes/fuse_recompute.h).
#pragma once
#include "core/op.h"
#include "core/rewrite.h"

namespace pal {

// x (.., C), gamma, beta (C), residual (.., C) or absent -> y, mean, rstd, variance as those of
// batch_norm, but y = max(gamma (x - mean) rstd + beta (+ residual), 0).
// dy, x, gamma, mean, rstd, beta -> dx, dgamma, dbeta of max(gamma (x - mean) rstd + beta, 0).
extern const OpDef batch_norm_relu_grad_op, batch_norm_relu_op;
extern const Rewrite batch_norm_apply_relu_rewrite, batch_norm_relu_grad_rewrite,
    batch_norm_relu_rewrite;
[[gnu::weak]] extern const Backend batch_norm_relu_cuda, batch_norm_relu_grad_cuda;

}  // namespace pal
