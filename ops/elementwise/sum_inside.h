// A sum of two gradients that goes through relu's or clip's gradient as it is made: where a
// residual block begins. No model records it: a pass puts it where the two nodes stand
// (fuse_epilogues of memory/passes/fuse_recompute.h).
#pragma once
#include "core/op.h"
#include "core/rewrite.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"

namespace pal {

// a, b, y -> a + b where lo < y < hi, else 0; y may be bits.
extern const OpDef sum_inside_op;
extern const Rewrite sum_inside_rewrite;
[[gnu::weak]] extern const Backend sum_inside_cuda;

// A sum of 16 bits is rounded once, as it is stored: whether it passes does not depend on it.
struct SumInside {
  using Attributes = IntervalAttrs;
  PassInside inside;
  explicit SumInside(const IntervalAttrs& interval) : inside(interval) {}
  BitMeaning bit_meaning() const { return inside.bit_meaning(); }
  PAL_HD float operator()(float a, float b, float y) const { return inside(Add{}(a, b), y); }
};

}  // namespace pal
