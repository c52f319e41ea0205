// The product with a vector along the last axis.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef dot_last_grad_op, dot_last_op;
[[gnu::weak]] extern const Backend dot_last_grad_cuda, dot_last_cuda;

// x (.., A), v (A) -> (..): x[..,:] . v
Val dot_last(Val x, Val v);

}  // namespace pal
