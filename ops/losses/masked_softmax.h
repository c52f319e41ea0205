// Softmax over source positions and over the last axis, with positions past a length left out.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef masked_softmax_grad_op, masked_softmax_op, softmax_grad_op, softmax_op;

struct SoftmaxAttrs {
  bool causal = false;
  auto fields() const { return std::tuple{field("causal", causal)}; }
};

// scores (S, B), lengths i32 (B) or absent -> (S, B): the softmax of each column's first lengths[b]
// scores, zero after them; all zero where the length is.
Val masked_softmax(Val scores, Val lengths = {});

// x (.., Q, C) -> the softmax of each row. With lengths i32 (L), where L divides the number of
// rows, so many consecutive rows use each length: all heads and queries of a sentence, the batch
// outermost. causal: row q of Q uses the first q + 1 at most.
Val softmax(Val x, Val lengths = {}, bool causal = false);

}  // namespace pal
