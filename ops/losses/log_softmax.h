// Log-softmax and argmax over the last axis, for decoding.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef argmax_rows_op, log_softmax_op;
[[gnu::weak]] extern const Backend argmax_rows_cuda, log_softmax_cuda;

// x (.., V) -> x - log sum exp of its row; not differentiable.
Val log_softmax(Val x);
// x (.., C) -> i32 (..): the index of the largest of each row, the first among equals.
Val argmax_rows(Val x);

}  // namespace pal
