// Sequences back to front, each within its own length.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef reverse_op;
[[gnu::weak]] extern const Backend reverse_cuda;

// x (T, B, ..), lengths i32[B] -> y (T, B, ..): y[t, b] = x[len - 1 - t, b] for t < len, the
// padding behind stays where it is. Its own inverse, and its own gradient.
// A length outside [0, T] is a ProgramError when the node runs.
Val reverse(Val x, Val lengths);

}  // namespace pal
