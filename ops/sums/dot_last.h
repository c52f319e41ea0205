// The product with a vector along the last axis, and the inner product of two tensors.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef dot_last_grad_op, dot_last_op, inner_product_op, scale_by_op;

// x (.., A), v (A) -> (..): x[..,:] . v
Val dot_last(Val x, Val v);

// The gradient of v is summed in chunks of so many of x's rows, one after the other, then these.
int64_t dot_last_rows(int64_t rows);

// a, b of one shape and type -> f32[1]: the sum of a b over all elements, + sum f32[1] if given.
Val inner_product(Val a, Val b, Val sum = {});

// factor x, where factor f32[1] is a value: a learned scale.
Val scale_by(Val x, Val factor);

}  // namespace pal
