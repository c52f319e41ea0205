// A convolution whose result goes through relu as it is made. No model records these: on a card a
// pass puts them where the two nodes stand (fuse_epilogues of memory/passes/fuse_recompute.h).
#pragma once
#include "core/op.h"
#include "core/rewrite.h"

namespace pal {

// max(x * w + bias, 0), operands and attributes as those of conv2d and conv3d.
extern const OpDef conv2d_relu_op, conv3d_relu_op;
extern const Rewrite conv2d_relu_rewrite, conv3d_relu_rewrite;
[[gnu::weak]] extern const Backend conv2d_relu_cuda, conv3d_relu_cuda;

}  // namespace pal
