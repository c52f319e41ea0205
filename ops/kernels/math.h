// exp, log, tanh, sigmoid and erf of f32: branch-free, without libm, so loops over them vectorise,
// and a scalar call, a vector lane and (with fmaf exact everywhere) a GPU thread give the same
// bits. Worst errors over all of f32, in units in the last place of the result
// (tests/ops/kernels/math_test.cc):
//   exp 1.1 (subnormal results too), log 1, tanh 6, erf 6, sigmoid 2.5 above -87, where it leaves
//   the normal numbers (below, 2^-126 absolutely).
// Exact: exp(0) = 1, exp(-inf) = 0, exp(inf) = inf; log(1) = 0, log(0) = -inf, log(inf) = inf,
// log(x < 0) = NaN; tanh(+-0) = +-0, tanh(+-inf) = +-1; sigmoid(0) = 1/2, sigmoid(-inf) = 0,
// sigmoid(inf) = 1. NaN gives NaN.
// always_inline: a call that is left in a loop keeps it from being vectorised.
#pragma once
#include <cmath>
#include <cstdint>

#include "ops/kernels/element_types.h"

namespace pal {

// c ? a : b without a branch even where the compiler would rather make one (a conditional that
// guards floating-point arithmetic keeps loops from being vectorised).
[[gnu::always_inline]] PAL_HD inline float choose(bool c, float a, float b) {
  const uint32_t mask = 0u - uint32_t(c);
  return bits_float((float_bits(a) & mask) | (float_bits(b) & ~mask));
}

// first x^n + .. , by Horner's rule: the coefficients of the highest power first.
template <class... C>
[[gnu::always_inline]] PAL_HD inline float polynomial(float x, float first, C... rest) {
  float p = first;
  ((p = fmaf(p, x, rest)), ...);
  return p;
}

// e^x = 2^n e^r with n = round(x / ln 2) and |r| <= ln 2 / 2; e^r by Cephes' expf polynomial.
[[gnu::always_inline]] PAL_HD inline float exp(float x) {
  x = choose(x > 89.0f, 89.0f, x);  // e^89 is infinite, e^-104 is 0; NaN passes both
  x = choose(x < -104.0f, -104.0f, x);
  constexpr float kShift = 0x1.8p23f;  // adding it rounds to an integer, kept in the lowest bits
  const float shifted = fmaf(x, 1.44269504088896341f, kShift);
  const float n = shifted - kShift;
  float r = fmaf(n, -0.693359375f, x);  // ln 2 in two parts, the first exact
  r = fmaf(n, 2.12194440e-4f, r);
  const float p = polynomial(r, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                             4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f);
  const float e_r = fmaf(p, r * r, r) + 1.0f;
  // 2^n in two factors, both normal: n reaches from -150 to 128. Only the last product rounds.
  const int32_t k = int32_t(float_bits(shifted) - float_bits(kShift));
  const int32_t half = k >> 1;
  const float a = bits_float(uint32_t(half + 127) << 23);
  const float b = bits_float(uint32_t(k - half + 127) << 23);
  return e_r * a * b;
}

// x = 2^n m with sqrt(1/2) <= m < sqrt(2); log m by Cephes' logf polynomial in m - 1.
[[gnu::always_inline]] PAL_HD inline float log(float x) {
  const bool subnormal = x < 0x1p-126f;
  const uint32_t u = float_bits(x * choose(subnormal, 0x1p23f, 1.0f));
  const uint32_t from_half = u - 0x3f3504f3u;  // the bits of sqrt(1/2)
  const float n = float(int32_t(from_half) >> 23) - choose(subnormal, 23.0f, 0.0f);
  const float f = bits_float((from_half & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  const float p = polynomial(f, 7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f,
                             -1.2420140846e-1f, 1.4249322787e-1f, -1.6668057665e-1f,
                             2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f);
  const float ff = f * f;
  float tail = fmaf(f * ff, p, n * -2.12194440e-4f);
  tail = fmaf(-0.5f, ff, tail);
  float y = fmaf(n, 0.693359375f, f + tail);
  y = choose(x > 0x1.fffffep127f, x, y);  // infinity
  y = choose(x == 0.0f, -__builtin_huge_valf(), y);
  return choose(x >= 0.0f, y, __builtin_nanf(""));  // negative or NaN
}

// The sign of x with ratio(min(|x|, end)), which is at most 1, and 1 from `end` on. NaN stays.
template <class F>
[[gnu::always_inline]] PAL_HD inline float odd_up_to_one(float x, float end, F ratio) {
  const uint32_t magnitude = float_bits(x) & 0x7fffffffu, sign = float_bits(x) & 0x80000000u;
  const uint32_t last = float_bits(end), one = 0x3f800000u;  // floats above 0: ordered as integers
  const uint32_t y = float_bits(ratio(bits_float(magnitude < last ? magnitude : last)));
  const uint32_t bounded = y < one ? y : one;
  const uint32_t large = magnitude >= last ? one : bounded;
  return bits_float(magnitude > 0x7f800000u ? magnitude : large | sign);
}

// x P(x^2) / Q(x^2), minimax in relative error on [-9, 9]; beyond, tanh is 1 in f32.
[[gnu::always_inline]] PAL_HD inline float tanh(float x) {
  return odd_up_to_one(x, 9.0f, [](float c) {
    const float u = c * c;
    const float p =
        polynomial(u, 1.335423279e-8f, 2.060876550e-5f, 3.495568802e-3f, 1.338100944e-1f, 1.0f);
    const float q =
        polynomial(u, 7.776380269e-7f, 3.285603210e-4f, 2.587690884e-2f, 4.671432504e-1f, 1.0f);
    return c * (p / q);
  });
}

// 1 / (1 + e^-x)
[[gnu::always_inline]] PAL_HD inline float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }

// x P(x^2) / Q(x^2), minimax in relative error on [-3.92, 3.92]; beyond, erf is 1 in f32.
[[gnu::always_inline]] PAL_HD inline float erf(float x) {
  return odd_up_to_one(x, 3.92f, [](float c) {
    const float u = c * c;
    const float p = polynomial(u, 2.050162394e-6f, 2.848740624e-4f, 3.765222441e-3f,
                               5.274751584e-2f, 1.903972415e-1f, 1.128379146f);
    const float q = polynomial(u, 3.809203691e-5f, 1.162440022e-3f, 1.496843008e-2f,
                               1.141053082e-1f, 5.020679059e-1f, 1.0f);
    return c * (p / q);
  });
}

}  // namespace pal
