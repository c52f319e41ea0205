// A scale that is itself a value, and the inner product of two tensors, which is its gradient.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef inner_product_op, scale_by_op;
[[gnu::weak]] extern const Backend inner_product_cuda, scale_by_cuda;

// a, b of one shape and type -> f32[1]: the sum of a b over all elements, + sum f32[1] if given.
Val inner_product(Val a, Val b, Val sum = {});

// factor x, where factor f32[1] is a value: a learned scale.
Val scale_by(Val x, Val factor);

}  // namespace pal
