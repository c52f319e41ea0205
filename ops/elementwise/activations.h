// relu, clip (Hardtanh, ReLU6), tanh, sigmoid. Their gradients read the output alone; those of relu
// and clip only whether it lies inside the interval, so a bit per element will do for them.
#pragma once
#include <limits>

#include "core/op.h"
#include "core/val.h"
#include "ops/kernels/math.h"
#include "ops/kernels/tiles.h"

namespace pal {

extern const OpDef clip_op, pass_inside_op, relu_op, sigmoid_grad_op, sigmoid_op, tanh_grad_op,
    tanh_op;
[[gnu::weak]] extern const Backend clip_cuda, pass_inside_cuda, relu_cuda, sigmoid_grad_cuda,
    sigmoid_cuda, tanh_grad_cuda, tanh_cuda;

// All take a floating-point tensor of any shape, and give one like it.
Val relu(Val x);                      // max(x, 0)
Val clip(Val x, float lo, float hi);  // min(max(x, lo), hi): Hardtanh (-1, 1), ReLU6 (0, 6)
Val tanh(Val x);
Val sigmoid(Val x);

// dy where lo < y < hi, else 0: the gradient of relu (0, infinity) and clip. y may be bits.
Val pass_inside(Val dy, Val y, float lo, float hi);

struct IntervalAttrs {
  float lo = 0, hi = std::numeric_limits<float>::infinity();
  auto fields() const { return std::tuple{field("lo", lo), field("hi", hi)}; }
};

// Of what clip gives: an end of the interval that is 0.
Zeros clip_zeros(const Attrs& interval);

struct Relu {
  PAL_HD float operator()(float x) const { return x < 0 ? 0 : x; }  // NaN stays
};
struct Clip {
  using Attributes = IntervalAttrs;
  float lo, hi;
  explicit Clip(const IntervalAttrs& interval) : lo(interval.lo), hi(interval.hi) {}
  PAL_HD float operator()(float x) const { return x < lo ? lo : x > hi ? hi : x; }
};
struct PassInside {
  using Attributes = IntervalAttrs;
  float lo, hi;
  explicit PassInside(const IntervalAttrs& interval) : lo(interval.lo), hi(interval.hi) {}
  BitMeaning bit_meaning() const { return bits_of_interval(lo, hi); }
  PAL_HD float operator()(float dy, float y) const { return ((lo < y) & (y < hi)) ? dy : 0; }
};
struct Tanh {
  PAL_HD float operator()(float x) const { return tanh(x); }
};
struct TanhGrad {
  PAL_HD float operator()(float dy, float y) const { return dy * (1 - y * y); }
};
struct Sigmoid {
  PAL_HD float operator()(float x) const { return sigmoid(x); }
};
struct SigmoidGrad {
  PAL_HD float operator()(float dy, float y) const { return dy * (y * (1 - y)); }
};

}  // namespace pal
