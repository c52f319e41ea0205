// What norms and their gradients do with elements where relu follows the norm: each element is
// rounded to its type between two steps, so that the bits are those of the nodes one by one.
#pragma once
#include <cstdint>

#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/kernels/element_types.h"
#include "ops/kernels/float_types.h"

namespace pal {

// Of a normalised element: max(y, 0), or max(y + residual, 0).
struct Rectified {
  float operator()(float y, int64_t) const { return Relu{}(y); }
};
template <class T> struct RectifiedSum {
  const T* residual;
  float operator()(float y, int64_t i) const {
    return Relu{}(Add{}(as_stored<T>(y), load(residual, i)));
  }
};

// Of dy: dy where max(y, 0) is inside of relu's interval, y = (x - mean) gamma rstd + beta of x;
// else 0.
template <class T> struct RectifiedGrad {
  const float *gamma, *beta, *mean, *rstd;
  PassInside inside{IntervalAttrs{}};
  float operator()(float dy, float x, int64_t c) const {
    const float y = (x - mean[c]) * (gamma[c] * rstd[c]) + beta[c];
    return inside(dy, as_stored<T>(Relu{}(y)));
  }
};

}  // namespace pal
