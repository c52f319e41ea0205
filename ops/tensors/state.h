// Updates of a state's value, which a gate may hold back.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef assign_op, moving_average_op;
[[gnu::weak]] extern const Backend assign_cuda, moving_average_cuda;

struct AssignAttrs {
  bool gated = false;  // a gate is there: where it is shut, the old value is read
  auto fields() const { return std::tuple{field("gated", gated)}; }
};
struct MovingAverageAttrs {
  float momentum = 0;
  auto fields() const { return std::tuple{field("momentum", momentum)}; }
};

// Updates. `old` is the newest value of a state slot; the result is its next value, `old` itself
// where there is a gate (ops/kernels/gate.h) and it does not let updates apply.
// x as the state's value, converted to the state's type: a bf16 copy of an f32 weight, say, or an
// accumulator.
Val assign(Val old, Val x, Val gate = {});
// old + momentum (x - old): batch norm's running statistics, averages of weights.
Val moving_average(Val old, Val x, float momentum, Val gate = {});

}  // namespace pal
