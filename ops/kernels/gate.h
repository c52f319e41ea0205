// A gate: the value that every update of a step reads, and that says whether and how the update is
// applied. clip_norm_gate (ops/sums/gates.h) makes it.
#pragma once
#include "core/spec.h"

namespace pal {

// What a gate holds, f32[4].
struct Gate {
  float scale;      // multiplies every gradient: the loss scale undone, the norm clipped
  float apply;      // 1, or 0: states stay as they are
  float norm;       // of all gradients, the loss scale undone
  float overflows;  // sparse encodings of the step that had too little room
};
inline TensorSpec gate_spec() { return {Shape{4}, DType::f32}; }

}  // namespace pal
