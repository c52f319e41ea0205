// Values in other types: floats rounded, or one bit per element.
#pragma once
#include <limits>

#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef cast_op, to_bits_op;
[[gnu::weak]] extern const Backend cast_cuda, to_bits_cuda;

struct CastAttrs {
  DType to = DType::f32;
  auto fields() const { return std::tuple{field("to", to)}; }
};
struct BitsAttrs {
  float lo = 0, hi = std::numeric_limits<float>::infinity();
  auto fields() const { return std::tuple{field("lo", lo), field("hi", hi)}; }
};

// x in another floating-point type, rounded to nearest even; x itself where it has that type.
Val cast(Val x, DType to);

// One bit per element, lo < x < hi: what readers of that predicate need of x.
Val to_bits(Val x, float lo, float hi = std::numeric_limits<float>::infinity());

}  // namespace pal
