// Elements of what the emulated libraries are handed, and how they multiply them.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/spec.h"
#include "ops/kernels/element_types.h"

namespace pal::emulation {

inline float load_element(const void* p, DType type, int64_t i) {
  if (type == DType::bf16) return load(static_cast<const bf16*>(p), i);
  if (type == DType::f16) return load(static_cast<const f16*>(p), i);
  return static_cast<const float*>(p)[i];
}
inline void store_element(void* p, DType type, int64_t i, float x) {
  if (type == DType::bf16) return store(static_cast<bf16*>(p), i, x);
  if (type == DType::f16) return store(static_cast<f16*>(p), i, x);
  static_cast<float*>(p)[i] = x;
}
// A factor in TF32, which has 10 bits behind the first.
inline double tf32_factor(float x) {
  return double(bits_float((float_bits(x) + 0x1000u) & ~0x1fffu));
}

}  // namespace pal::emulation
