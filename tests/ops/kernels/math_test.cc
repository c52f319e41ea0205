// pal::exp, log, tanh, sigmoid, erf against double precision, their exact points, and that a loop
// the compiler vectorises gives the bits of single calls. Storage types against independent
// references.
#include "ops/kernels/math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace pal {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

// Distance in units in the last place that an f32 of the reference's size has.
double ulps(float y, double reference) {
  if (std::isnan(reference)) return std::isnan(y) ? 0 : 1e30;
  if (std::isinf(float(reference))) return y == float(reference) ? 0 : 1e30;
  int exponent;
  std::frexp(reference, &exponent);
  return std::fabs(double(y) - reference) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

// The worst over every `stride`-th f32 in [lo, hi].
template <class F, class G>
double worst(F f, G reference, float lo = -kInf, float hi = kInf, uint64_t stride = 997) {
  double most = 0;
  for (uint64_t u = 0; u < (uint64_t(1) << 32); u += stride) {
    const float x = bits_float(uint32_t(u));
    if (x >= lo && x <= hi) most = std::max(most, ulps(f(x), reference(double(x))));
  }
  return most;
}

TEST(Math, ExpIsWithinItsBound) {
  EXPECT_LE(worst([](float x) { return pal::exp(x); }, [](double x) { return std::exp(x); }), 1.1);
}
TEST(Math, LogIsWithinItsBound) {
  EXPECT_LE(worst([](float x) { return pal::log(x); }, [](double x) { return std::log(x); }), 1.0);
}
TEST(Math, TanhIsWithinItsBound) {
  EXPECT_LE(worst([](float x) { return pal::tanh(x); }, [](double x) { return std::tanh(x); }), 6);
}
TEST(Math, ErfIsWithinItsBound) {
  EXPECT_LE(worst([](float x) { return pal::erf(x); }, [](double x) { return std::erf(x); }), 6);
}
TEST(Math, SigmoidIsWithinItsBounds) {
  auto f = [](float x) { return pal::sigmoid(x); };
  auto reference = [](double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_LE(worst(f, reference, -87), 2.5);
  for (float x = -87; x > -120; x -= 0.01f) {
    EXPECT_LE(std::fabs(double(f(x)) - reference(double(x))), 0x1p-126) << x;
  }
}

TEST(Math, ExactPoints) {
  EXPECT_EQ(pal::exp(0.0f), 1);
  EXPECT_EQ(pal::exp(-0.0f), 1);
  EXPECT_EQ(pal::exp(kInf), kInf);
  EXPECT_EQ(pal::exp(-kInf), 0);
  EXPECT_EQ(pal::erf(kInf), 1);
  EXPECT_EQ(pal::erf(-kInf), -1);
  EXPECT_TRUE(std::isnan(pal::erf(kNan)));
  EXPECT_EQ(pal::log(1.0f), 0);
  EXPECT_EQ(pal::log(0.0f), -kInf);
  EXPECT_EQ(pal::log(-0.0f), -kInf);
  EXPECT_EQ(pal::log(kInf), kInf);
  EXPECT_TRUE(std::isnan(pal::log(-1.0f)));
  EXPECT_TRUE(std::isnan(pal::log(-kInf)));
  EXPECT_EQ(float_bits(pal::tanh(0.0f)), float_bits(0.0f));
  EXPECT_EQ(float_bits(pal::tanh(-0.0f)), float_bits(-0.0f));
  EXPECT_EQ(pal::tanh(kInf), 1);
  EXPECT_EQ(pal::tanh(-kInf), -1);
  EXPECT_EQ(pal::sigmoid(0.0f), 0.5f);
  EXPECT_EQ(pal::sigmoid(kInf), 1);
  EXPECT_EQ(pal::sigmoid(-kInf), 0);
  for (float nan : {kNan, -kNan}) {
    EXPECT_TRUE(std::isnan(pal::exp(nan)) && std::isnan(pal::log(nan)));
    EXPECT_TRUE(std::isnan(pal::tanh(nan)) && std::isnan(pal::sigmoid(nan)));
  }
}

TEST(Math, TanhIsOddAndBounded) {
  for (float x = 0; x < 12; x += 0.001f) {
    EXPECT_EQ(pal::tanh(-x), -pal::tanh(x));
    EXPECT_LE(pal::tanh(x), 1);
  }
}

template <class F> void expect_same_bits_in_a_loop(F f) {
  std::vector<float> x, y;
  for (uint64_t u = 0; u < (uint64_t(1) << 32); u += 65521) x.push_back(bits_float(uint32_t(u)));
  y.resize(x.size());
  const float* from = x.data();
  float* to = y.data();
#pragma omp simd
  for (size_t i = 0; i < x.size(); ++i) to[i] = f(from[i]);
  for (size_t i = 0; i < x.size(); ++i) {
    volatile float one = x[i];  // keeps this loop scalar
    const float expected = f(one);
    if (std::isnan(expected) && std::isnan(y[i])) continue;
    ASSERT_EQ(float_bits(y[i]), float_bits(expected)) << "at " << x[i];
  }
}
TEST(Math, LanesAndCallsGiveTheSameBits) {
  expect_same_bits_in_a_loop([](float x) { return pal::exp(x); });
  expect_same_bits_in_a_loop([](float x) { return pal::log(x); });
  expect_same_bits_in_a_loop([](float x) { return pal::tanh(x); });
  expect_same_bits_in_a_loop([](float x) { return pal::sigmoid(x); });
}

// What an f16 means, from its definition.
float meaning_of_f16(uint16_t h) {
  const int exponent = h >> 10 & 31, mantissa = h & 1023;
  const double sign = h & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa ? kNan : float(sign) * kInf;
  if (exponent == 0) return float(sign * std::ldexp(mantissa, -24));
  return float(sign * std::ldexp(1024 + mantissa, exponent - 25));
}

TEST(Storage, EveryF16IsReadAndWrittenBack) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const float x = to_float(f16{uint16_t(h)}), meaning = meaning_of_f16(uint16_t(h));
    if (std::isnan(meaning)) {
      EXPECT_TRUE(std::isnan(x)) << h;
      EXPECT_TRUE(std::isnan(to_float(from_float<f16>(x)))) << h;
    } else {
      EXPECT_EQ(float_bits(x), float_bits(meaning)) << h;
      EXPECT_EQ(from_float<f16>(x).bits, h);
    }
  }
}
TEST(Storage, F16RoundsToNearestEven) {
  for (uint32_t h = 0; h < 0x7c00; ++h) {  // between each value and the next one up
    const double a = double(meaning_of_f16(uint16_t(h)));
    const double b = h == 0x7bff ? 65536 : double(meaning_of_f16(uint16_t(h + 1)));
    const float middle = float((a + b) / 2);  // exact
    const uint32_t even = h & 1 ? h + 1 : h;
    EXPECT_EQ(from_float<f16>(middle).bits, even) << h;
    EXPECT_EQ(from_float<f16>(-middle).bits, even | 0x8000) << h;
    EXPECT_EQ(from_float<f16>(std::nextafter(middle, 0.0f)).bits, h);
    EXPECT_EQ(from_float<f16>(std::nextafter(middle, kInf)).bits, h + 1);
  }
  EXPECT_EQ(from_float<f16>(kInf).bits, 0x7c00);
  EXPECT_EQ(from_float<f16>(-1e30f).bits, 0xfc00);
  EXPECT_TRUE(std::isnan(to_float(from_float<f16>(kNan))));
}
TEST(Storage, Bf16RoundsToNearestEven) {
  for (uint32_t u = 0; u < 0x7f80; ++u) {
    const float a = bits_float(u << 16), middle = bits_float(u << 16 | 0x8000);
    EXPECT_EQ(from_float<bf16>(a).bits, u);
    EXPECT_EQ(to_float(bf16{uint16_t(u)}), a);
    EXPECT_EQ(from_float<bf16>(middle).bits, u & 1 ? u + 1 : u);
    EXPECT_EQ(from_float<bf16>(std::nextafter(middle, 0.0f)).bits, u);
    EXPECT_EQ(from_float<bf16>(std::nextafter(middle, kInf)).bits, u + 1);
  }
  EXPECT_EQ(from_float<bf16>(-kInf).bits, 0xff80);
  EXPECT_TRUE(std::isnan(to_float(from_float<bf16>(bits_float(0x7f800001)))));
  EXPECT_TRUE(std::isnan(to_float(from_float<bf16>(bits_float(0x7fffffff)))));
}
TEST(Storage, BitsLieLowestFirst) {
  const uint8_t bytes[] = {0b00000101, 0b10000000};
  for (int i = 0; i < 16; ++i) EXPECT_EQ(load_bit(bytes, i), i == 0 || i == 2 || i == 15) << i;
}

}  // namespace
}  // namespace pal
