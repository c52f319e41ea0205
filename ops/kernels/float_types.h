// Kernels that are compiled for every storage of floats.
#pragma once
#include "core/spec.h"
#include "ops/kernels/element_types.h"

namespace pal {

// Calls f with a float, bf16 or f16.
template <class F> void by_float_type(DType type, F f) {
  switch (type) {
    case DType::bf16: return f(bf16{});
    case DType::f16: return f(f16{});
    default: return f(0.0f);
  }
}

// x as it is read back where it is stored so: what lies between two nodes, in a node that does the
// work of both.
template <class T> PAL_HD float as_stored(float x) { return to_float(from_float<T>(x)); }
PAL_HD inline float as_stored(DType type, float x) {
  switch (type) {
    case DType::bf16: return as_stored<bf16>(x);
    case DType::f16: return as_stored<f16>(x);
    default: return x;
  }
}
// out[j] = sum[j] + x[j] as it is stored, of a tile on the CPU. out may lie over either.
inline void add_stored(DType type, int64_t n, const float* x, const float* sum, float* out) {
  by_float_type(type, [=]<class T>(T) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) out[j] = sum[j] + as_stored<T>(x[j]);
  });
}

}  // namespace pal
