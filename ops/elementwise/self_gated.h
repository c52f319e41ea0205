// Smooth activations that scale x by a gate of x itself: SiLU (swish) and GELU. Their gradients
// read the input: where it was is not to be seen in the output, which has the same value twice.
#pragma once
#include "core/op.h"
#include "core/val.h"
#include "ops/kernels/math.h"

namespace pal {

extern const OpDef gelu_grad_op, gelu_op, silu_grad_op, silu_op;

// Both take a floating-point tensor of any shape, and give one like it.
Val silu(Val x);  // x sigmoid(x)  (Elfwing et al. 2017; swish, Ramachandran et al. 2017)
Val gelu(Val x);  // x Phi(x), Phi the normal distribution's  (Hendrycks and Gimpel 2016)

struct Silu {
  PAL_HD float operator()(float x) const { return x * sigmoid(x); }
};
struct SiluGrad {
  PAL_HD float operator()(float dy, float x) const {
    const float s = sigmoid(x);
    return dy * (s * (1 + x * (1 - s)));
  }
};

[[gnu::always_inline]] PAL_HD inline float normal_distribution(float x) {
  return 0.5f * (1 + erf(x * 0.70710678f));
}
struct Gelu {
  PAL_HD float operator()(float x) const { return x * normal_distribution(x); }
};
struct GeluGrad {
  PAL_HD float operator()(float dy, float x) const {
    const float density = 0.39894228f * exp(-0.5f * x * x);
    return dy * (normal_distribution(x) + x * density);
  }
};

}  // namespace pal
