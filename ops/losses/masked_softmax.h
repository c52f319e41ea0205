// Softmax over source positions, with positions past a length left out.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef masked_softmax_grad_op, masked_softmax_op;
[[gnu::weak]] extern const Backend masked_softmax_grad_cuda, masked_softmax_cuda;

// scores (S, B), lengths i32 (B) or absent -> (S, B): the softmax of each column's first lengths[b]
// scores, zero after them; all zero where the length is.
Val masked_softmax(Val scores, Val lengths = {});

}  // namespace pal
