// Softmax over the last axis, with positions past a length left out.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef softmax_grad_op, softmax_op;
[[gnu::weak]] extern const Backend softmax_grad_cuda, softmax_cuda;

struct SoftmaxAttrs {
  bool causal = false;
  auto fields() const { return std::tuple{field("causal", causal)}; }
};

// x (.., Q, C) -> the softmax of each row. With lengths i32 (L), where L divides the number of
// rows, so many consecutive rows use each length: all heads and queries of a sentence, the batch
// outermost. causal: row q of Q uses the first q + 1 at most.
Val softmax(Val x, Val lengths = {}, bool causal = false);

}  // namespace pal
