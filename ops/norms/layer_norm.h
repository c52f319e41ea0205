// Layer normalisation over the last axis.
#pragma once
#include "core/op.h"
#include "core/rewrite.h"
#include "core/val.h"

namespace pal {

extern const OpDef layer_norm_grad_op, layer_norm_grad_add_op, layer_norm_op;
extern const Rewrite layer_norm_grad_add_rewrite;
[[gnu::weak]] extern const Backend layer_norm_grad_cuda, layer_norm_cuda;

struct LayerNormAttrs {
  float eps = 1e-5f;
  auto fields() const { return std::tuple{field("eps", eps)}; }
};

// x (.., C), gamma f32 (C), beta f32 (C) -> (.., C): (x - mean) / sqrt(var + eps) gamma + beta,
// mean and (biased) variance of each row. The rows' mean and 1 / sqrt(var + eps) are further
// outputs, f32.
Val layer_norm(Val x, Val gamma, Val beta, float eps = 1e-5f);

}  // namespace pal
