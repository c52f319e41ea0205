// Products, differences and scalings, element by element.
#pragma once
#include "core/host_device.h"
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef mul_op, scale_op, sub_op;
[[gnu::weak]] extern const Backend mul_cuda, scale_cuda, sub_cuda;

// a * b, a - b: operands of one shape and floating-point type.
Val mul(Val a, Val b);
Val sub(Val a, Val b);
// factor * x.
Val scale(Val x, float factor);

struct ScaleAttrs {
  float factor = 1;
  auto fields() const { return std::tuple{field("factor", factor)}; }
};

struct Mul {
  PAL_HD float operator()(float a, float b) const { return a * b; }
};
struct Sub {
  PAL_HD float operator()(float a, float b) const { return a - b; }
};
struct Scale {
  using Attributes = ScaleAttrs;
  float factor;
  explicit Scale(const ScaleAttrs& attrs) : factor(attrs.factor) {}
  PAL_HD float operator()(float x) const { return factor * x; }
};

}  // namespace pal
