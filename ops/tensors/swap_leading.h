// The first two axes of a tensor exchanged: from images' pixels to time-major sequences, and back.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef swap_leading_op;
[[gnu::weak]] extern const Backend swap_leading_cuda;

// (A, B, ..) -> (B, A, ..), of any type with whole bytes.
Val swap_leading(Val x);

}  // namespace pal
