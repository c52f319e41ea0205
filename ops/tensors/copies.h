// Values kept elsewhere or otherwise: other types, state, host memory, one bit per element.
#pragma once
#include <limits>

#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef assign_op, cast_op, copy_in_op, copy_out_op, moving_average_op, step_scalars_op,
    to_bits_op;

struct CastAttrs {
  DType to = DType::f32;
  auto fields() const { return std::tuple{field("to", to)}; }
};
struct AssignAttrs {
  bool gated = false;  // a gate is there: where it is shut, the old value is read
  auto fields() const { return std::tuple{field("gated", gated)}; }
};
struct MovingAverageAttrs {
  float momentum = 0;
  auto fields() const { return std::tuple{field("momentum", momentum)}; }
};
struct BitsAttrs {
  float lo = 0, hi = std::numeric_limits<float>::infinity();
  auto fields() const { return std::tuple{field("lo", lo), field("hi", hi)}; }
};

// x in another floating-point type, rounded to nearest even; x itself where it has that type.
Val cast(Val x, DType to);

// Updates. `old` is the newest value of a state slot; the result is its next value, `old` itself
// where there is a gate (ops/sums/gates.h) and it does not let updates apply.
// x as the state's value, converted to the state's type: a bf16 copy of an f32 weight, say, or an
// accumulator.
Val assign(Val old, Val x, Val gate = {});
// old + momentum (x - old): batch norm's running statistics, averages of weights.
Val moving_average(Val old, Val x, float momentum, Val gate = {});

// The same bytes in host memory (recorded in phase offload), and back (in phase reload).
Val copy_out(Val x);
Val copy_in(Val x);

// One bit per element, lo < x < hi: what readers of that predicate need of x.
Val to_bits(Val x, float lo, float hi = std::numeric_limits<float>::infinity());

// The step's scalars (core/scalars.h) on the device, from the host's; the first node of a step.
Val step_scalars(Val host);

}  // namespace pal
