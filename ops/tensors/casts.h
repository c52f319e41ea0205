// Values in other types: floats rounded, or one bit per element.
#pragma once
#include <limits>

#include "core/host_device.h"
#include "core/op.h"
#include "core/val.h"
#include "ops/elementwise/activations.h"
#include "ops/kernels/tiles.h"

namespace pal {

extern const OpDef cast_op, to_bits_op;
[[gnu::weak]] extern const Backend cast_cuda, to_bits_cuda;

struct CastAttrs {
  DType to = DType::f32;
  // Of the result, a matrix with zeros behind x's rows or in columns behind x's; 0: as many as x.
  int64_t rows = 0, columns = 0;
  auto fields() const {
    return std::tuple{field("to", to), rare_field("rows", rows), rare_field("columns", columns)};
  }
};
using BitsAttrs = IntervalAttrs;

struct Inside {
  using Attributes = BitsAttrs;
  float lo, hi;
  explicit Inside(const BitsAttrs& interval) : lo(interval.lo), hi(interval.hi) {}
  BitMeaning bit_meaning() const { return bits_of_interval(lo, hi); }
  PAL_HD float operator()(float x) const { return ((lo < x) & (x < hi)) ? 1.0f : 0.0f; }
};

// x in another floating-point type, rounded to nearest even; x itself where it has that type.
Val cast(Val x, DType to);

// One bit per element, lo < x < hi: what readers of that predicate need of x.
Val to_bits(Val x, float lo, float hi = std::numeric_limits<float>::infinity());

}  // namespace pal
