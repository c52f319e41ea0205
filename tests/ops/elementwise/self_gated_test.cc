// The smooth activations against their formulas in double precision.
#include "ops/elementwise/self_gated.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/elementwise/evaluate.h"

namespace pal {
namespace {

using Floats = std::vector<float>;

TEST(SelfGated, FollowTheFormulas) {
  Floats x;
  for (int i = -60; i <= 60; ++i) x.push_back(float(i) / 8);
  const auto y = test::evaluate({{{{int64_t(x.size())}}, x}},
                                [](const std::vector<Val>& in) -> std::vector<Val> {
                                  return {silu(in[0]), gelu(in[0]), gelu_tanh(in[0])};
                                });
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = double(x[i]);
    EXPECT_NEAR(y[0][i], v / (1 + std::exp(-v)), 1e-6) << v;
    EXPECT_NEAR(y[1][i], v / 2 * (1 + std::erf(v / std::sqrt(2.0))), 1e-6) << v;
    const double argument = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
    EXPECT_NEAR(y[2][i], v / 2 * (1 + std::tanh(argument)), 1e-6) << v;
  }
}

// Where the cube of x has no float, the gradient is still 0 or 1.
TEST(SelfGated, GeluTanhIsALineFarOut) {
  const auto y = test::evaluate({{{{2}}, {-1e20f, 1e20f}}},
                                [](const std::vector<Val>& in) -> std::vector<Val> {
                                  Val one = in[0].builder->emit1(gelu_tanh_grad_op, {in[0], in[0]});
                                  return {gelu_tanh(in[0]), one};
                                });
  EXPECT_EQ(y[0], (Floats{0, 1e20f}));
  EXPECT_EQ(y[1], (Floats{0, 1e20f}));
}

}  // namespace
}  // namespace pal
