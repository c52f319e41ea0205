// How elements are stored: f32, bf16, f16, packed bits and nibbles. Arithmetic is always in f32;
// these are the only conversions. All are branch-free, so loops over them vectorise, and none
// depends on the machine's own half-precision instructions, so every backend rounds alike.
#pragma once
#include <cstdint>

#include "core/host_device.h"

namespace pal {

// The upper half of an f32.
struct bf16 {
  uint16_t bits;
};
// IEEE binary16.
struct f16 {
  uint16_t bits;
};

PAL_HD inline uint32_t float_bits(float x) { return __builtin_bit_cast(uint32_t, x); }
PAL_HD inline float bits_float(uint32_t u) { return __builtin_bit_cast(float, u); }

PAL_HD inline float to_float(float x) { return x; }
PAL_HD inline float to_float(bf16 x) { return bits_float(uint32_t(x.bits) << 16); }
PAL_HD inline float to_float(f16 x) {
  // Shifted into place the exponent is 112 too small; the product is exact, subnormals included.
  const uint32_t h = x.bits;
  const uint32_t shifted = float_bits(bits_float((h & 0x7fffu) << 13) * 0x1p112f);
  const uint32_t special = (h & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0u;  // infinity, NaN
  return bits_float((h & 0x8000u) << 16 | shifted | special);
}

// Round to nearest, ties to even; too large becomes infinity; NaN stays NaN.
template <class T> PAL_HD T from_float(float x);
template <> PAL_HD inline float from_float<float>(float x) { return x; }
template <> PAL_HD inline bf16 from_float<bf16>(float x) {
  const uint32_t u = float_bits(x);
  const uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
  return {uint16_t(x != x ? (u >> 16 | 0x40u) : rounded)};
}
template <> PAL_HD inline f16 from_float<f16>(float x) {
  const uint32_t u = float_bits(x), magnitude = u & 0x7fffffffu, sign = u >> 16 & 0x8000u;
  // 65536 and above. From 65520 on, `normal` carries into the exponent and is infinity as well.
  const uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  // Below 2^-14 the addition of 0.5 rounds at the subnormals' last place.
  const uint32_t subnormal = float_bits(bits_float(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  const uint32_t small = magnitude < 0x38800000u ? subnormal : normal;
  return {uint16_t(sign | (magnitude >= 0x47800000u ? special : small))};
}

template <class T> PAL_HD float load(const T* p, int64_t i) { return to_float(p[i]); }
template <class T> PAL_HD void store(T* p, int64_t i, float x) { p[i] = from_float<T>(x); }

// Bits lie eight to a byte, the lowest first.
PAL_HD inline bool load_bit(const uint8_t* p, int64_t i) { return p[i >> 3] >> (i & 7) & 1; }

// Elements of u4 lie two to a byte, the first in its lower half. So work on them is cut at even
// elements: no two threads write one byte.
PAL_HD inline int load_u4(const uint8_t* p, int64_t i) { return p[i >> 1] >> (4 * (i & 1)) & 15; }

}  // namespace pal
