// relu or clip, and the bits of its result that their gradients read, in one pass over the map. No
// model records it: a pass puts it where to_bits stands behind them (fuse_encoders of
// memory/passes/fuse_recompute.h).
#pragma once
#include "core/op.h"
#include "core/rewrite.h"

namespace pal {

// y = min(max(x, lo), hi), and a bit per element, lo < y < hi; IntervalAttrs. Floats of any shape.
extern const OpDef clip_bits_op;
extern const Rewrite clip_bits_rewrite, relu_bits_rewrite;
[[gnu::weak]] extern const Backend clip_bits_cuda;

}  // namespace pal
