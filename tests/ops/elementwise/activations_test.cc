// Activations at their edges: infinities and NaN, and predicates from bits.
#include "ops/elementwise/activations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/differentiate.h"
#include "core/error.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"
#include "tests/ops/elementwise/evaluate.h"

namespace pal {
namespace {

using Floats = std::vector<float>;
using test::evaluate;
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Activations, ReluAndClipKeepNan) {
  const float nan = std::nanf("");
  const auto y =
      evaluate({{{{5}}, {-1, 0, 7, kInf, nan}}}, [](const std::vector<Val>& x) -> std::vector<Val> {
        return {relu(x[0]), clip(x[0], 0, 6)};
      });
  EXPECT_EQ(Floats(y[0].begin(), y[0].begin() + 4), (Floats{0, 0, 7, kInf}));
  EXPECT_EQ(Floats(y[1].begin(), y[1].begin() + 4), (Floats{0, 0, 6, 6}));
  EXPECT_TRUE(std::isnan(y[0][4]) && std::isnan(y[1][4]));
}

TEST(Activations, TheIntervalIsOpen) {
  const Floats edge{-1, std::nextafter(-1.0f, 0.0f), 0, std::nextafter(1.0f, 0.0f), 1, 2};
  const auto y = evaluate(
      {{{{6}}, Floats(6, 5)}, {{{6}}, edge}}, [](const std::vector<Val>& x) -> std::vector<Val> {
        return {pass_inside(x[0], x[1], -1, 1), pass_inside(x[0], to_bits(x[1], -1, 1), -1, 1),
                pass_inside(x[0], to_bits(x[1], 0), 0, kInf)};
      });
  EXPECT_EQ(y[0], (Floats{0, 5, 5, 5, 0, 0}));
  EXPECT_EQ(y[1], y[0]);
  EXPECT_EQ(y[2], (Floats{0, 0, 0, 5, 5, 5}));
}

// Every interval that a predicate can name must tell the two values of a bit apart.
TEST(Activations, BitsStandForValuesOfAnyInterval) {
  for (auto [lo, hi] : {std::pair{0.0f, kInf},
                        {0.0f, 6.0f},
                        {-1.0f, 1.0f},
                        {3.0f, kInf},
                        {-3.0f, kInf},
                        {-kInf, 4.0f},
                        {-kInf, -4.0f},
                        {-kInf, 0.0f},
                        {-3e38f, 3e38f}}) {
    Builder builder;
    Val dy = builder.input("dy", {{2}});
    Val bits = builder.input("bits", {{2}, DType::bit});
    builder.output("dx", pass_inside(dy, bits, lo, hi));
    test::Evaluator eval(builder.take());
    eval.set("dy", {5, 7});
    eval.set("bits", {0, 1});
    eval.run();
    EXPECT_EQ(eval.floats("dx"), (Floats{0, 7})) << lo << " " << hi;
  }
}

// What a program that is differentiated keeps: relu and clip read outputs by predicate alone.
TEST(Activations, GradientsReadOutputs) {
  Builder builder;
  Val x = builder.input("x", {{4}});
  Val h = tanh(clip(relu(x), -1, 1));
  Val loss = sum_all(h);
  differentiate(builder, loss, {x});
  for (const Node& node : builder.program().nodes) {
    if (node.phase != Phase::backward) continue;
    for (ValueId v : node.in) EXPECT_NE(v, x.id);
    if (node.op == &pass_inside_op) {
      EXPECT_EQ(reads_of(*node.op, 1, node.attrs).kind, Reads::Kind::predicate);
    }
  }
}

TEST(Activations, RefuseWhatDoesNotFit) {
  Builder builder;
  EXPECT_THROW(relu(builder.input("i", {{3}, DType::i32})), ProgramError);
  EXPECT_THROW(clip(builder.input("x", {{3}}), 1, 1), ProgramError);
}

}  // namespace
}  // namespace pal
