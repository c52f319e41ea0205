// Smooth activations that scale x by a gate of x itself: SiLU (swish), GELU, and the approximation
// of GELU by tanh. Their gradients read the input: where it was is not to be seen in the output,
// which has the same value twice.
#pragma once
#include "core/op.h"
#include "core/val.h"
#include "ops/kernels/math.h"

namespace pal {

extern const OpDef gelu_grad_op, gelu_op, gelu_tanh_grad_op, gelu_tanh_op, silu_grad_op, silu_op;
[[gnu::weak]] extern const Backend gelu_grad_cuda, gelu_cuda, gelu_tanh_grad_cuda, gelu_tanh_cuda,
    silu_grad_cuda, silu_cuda;

// All take a floating-point tensor of any shape, and give one like it.
Val silu(Val x);       // x sigmoid(x)  (Elfwing et al. 2017; swish, Ramachandran et al. 2017)
Val gelu(Val x);       // x Phi(x), Phi the normal distribution's  (Hendrycks and Gimpel 2016)
Val gelu_tanh(Val x);  // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), as they approximate it

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

// The argument of the tanh, and its slope. Beyond 9 the tanh is 1, whatever x is.
struct GeluTanhArgument {
  float value, slope;
  PAL_HD explicit GeluTanhArgument(float x) {
    x = choose(x > 9, 9, choose(x < -9, -9, x));
    const float square = 0.044715f * x * x;
    value = 0.79788456f * (x + square * x), slope = 0.79788456f * (1 + 3 * square);
  }
};
struct GeluTanh {
  PAL_HD float operator()(float x) const {
    return 0.5f * x * (1 + tanh(GeluTanhArgument(x).value));
  }
};
struct GeluTanhGrad {
  PAL_HD float operator()(float dy, float x) const {
    const GeluTanhArgument u(x);
    const float t = tanh(u.value);
    return dy * 0.5f * (1 + t + x * (1 - t * t) * u.slope);
  }
};

}  // namespace pal
