// Sums, differences, products and scalings: infinities, rounding, operands that do not fit.
#include "ops/elementwise/arithmetic.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/error.h"
#include "ops/elementwise/add.h"
#include "ops/tensors/casts.h"
#include "tests/ops/elementwise/evaluate.h"

namespace pal {
namespace {

using Floats = std::vector<float>;
using test::evaluate;
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Arithmetic, AddSubMulScale) {
  const auto y =
      evaluate({{{{3}}, {1, -2, kInf}}, {{{3}}, {4, 0.5f, 1}}},
               [](const std::vector<Val>& x) -> std::vector<Val> {
                 return {add(x[0], x[1]), sub(x[0], x[1]), mul(x[0], x[1]), scale(x[0], -3)};
               });
  EXPECT_EQ(y[0], (Floats{5, -1.5f, kInf}));
  EXPECT_EQ(y[1], (Floats{-3, -2.5f, kInf}));
  EXPECT_EQ(y[2], (Floats{4, -1, kInf}));
  EXPECT_EQ(y[3], (Floats{-3, 6, -kInf}));
}

TEST(Arithmetic, Bf16IsRoundedOncePerOperator) {
  // 1 + 2^-8 is halfway between two bf16s: to even, down; 1 + 3 2^-8 up.
  const TensorSpec spec{{2}, DType::bf16};
  const auto y =
      evaluate({{spec, {1, 1.0078125f}}, {spec, {0x1p-8f, 0x1p-8f}}},
               [](const std::vector<Val>& x) -> std::vector<Val> { return {add(x[0], x[1])}; });
  EXPECT_EQ(y[0], (Floats{1, 1.015625f}));
}

TEST(Arithmetic, ErrorsNameTheShapes) {
  Builder builder;
  Val a = builder.input("a", {{3, 4}}), b = builder.input("b", {{4, 3}});
  try {
    add(a, b);
    FAIL();
  } catch (const ProgramError& error) {
    EXPECT_STREQ(error.what(), "[add] f32[3,4], f32[4,3]: shapes differ");
  }
  EXPECT_THROW(mul(a, cast(a, DType::bf16)), ProgramError);
}

}  // namespace
}  // namespace pal
