// Elementwise operators at their edges: infinities and NaN, predicates from bits, types, and tails.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/differentiate.h"
#include "core/error.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/sums/gates.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/copies.h"
#include "ops/tensors/fill.h"
#include "tests/support/eval.h"

namespace pal {
namespace {

using Floats = std::vector<float>;
constexpr float kInf = std::numeric_limits<float>::infinity();

// f's outputs "y0", "y1", .. for inputs of one spec each.
std::vector<Floats> evaluate(const std::vector<std::pair<TensorSpec, Floats>>& inputs,
                             std::vector<Val> (*f)(const std::vector<Val>&)) {
  Builder builder;
  std::vector<Val> in;
  for (size_t i = 0; i < inputs.size(); ++i) {
    in.push_back(builder.input("x" + std::to_string(i), inputs[i].first));
  }
  const std::vector<Val> out = f(in);
  for (size_t i = 0; i < out.size(); ++i) builder.output("y" + std::to_string(i), out[i]);
  test::Evaluator eval(builder.take());
  for (size_t i = 0; i < inputs.size(); ++i) eval.set("x" + std::to_string(i), inputs[i].second);
  eval.run();
  std::vector<Floats> results;
  for (size_t i = 0; i < out.size(); ++i) results.push_back(eval.floats("y" + std::to_string(i)));
  return results;
}

TEST(Elementwise, AddSubMulScale) {
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

TEST(Elementwise, Bf16IsRoundedOncePerOperator) {
  // 1 + 2^-8 is halfway between two bf16s: to even, down; 1 + 3 2^-8 up.
  const TensorSpec spec{{2}, DType::bf16};
  const auto y =
      evaluate({{spec, {1, 1.0078125f}}, {spec, {0x1p-8f, 0x1p-8f}}},
               [](const std::vector<Val>& x) -> std::vector<Val> { return {add(x[0], x[1])}; });
  EXPECT_EQ(y[0], (Floats{1, 1.015625f}));
}

TEST(Elementwise, ReluAndClipKeepNan) {
  const float nan = std::nanf("");
  const auto y =
      evaluate({{{{5}}, {-1, 0, 7, kInf, nan}}}, [](const std::vector<Val>& x) -> std::vector<Val> {
        return {relu(x[0]), clip(x[0], 0, 6)};
      });
  EXPECT_EQ(Floats(y[0].begin(), y[0].begin() + 4), (Floats{0, 0, 7, kInf}));
  EXPECT_EQ(Floats(y[1].begin(), y[1].begin() + 4), (Floats{0, 0, 6, 6}));
  EXPECT_TRUE(std::isnan(y[0][4]) && std::isnan(y[1][4]));
}

TEST(Elementwise, TheIntervalIsOpen) {
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
TEST(Elementwise, BitsStandForValuesOfAnyInterval) {
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

TEST(Elementwise, BitsBehindTheLastElementAreZero) {
  Builder builder;
  builder.output("bits", to_bits(builder.input("x", {{11}}), 0));
  builder.output("ones", fill(builder, {{11}, DType::bit}, 1));
  test::Evaluator eval(builder.take());
  eval.set("x", Floats(11, 1));
  eval.run();
  for (const char* name : {"bits", "ones"}) {
    const auto bytes = eval.bytes(eval.find(name));
    ASSERT_EQ(bytes.size(), 2u);
    EXPECT_EQ(int(bytes[0]), 0xff);
    EXPECT_EQ(int(bytes[1]), 0x07);
  }
}

// What a program that is differentiated keeps: relu and clip read outputs by predicate alone.
TEST(Elementwise, GradientsReadOutputs) {
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

TEST(Elementwise, ErrorsNameTheShapes) {
  Builder builder;
  Val a = builder.input("a", {{3, 4}}), b = builder.input("b", {{4, 3}});
  try {
    add(a, b);
    FAIL();
  } catch (const ProgramError& error) {
    EXPECT_STREQ(error.what(), "[add] f32[3,4], f32[4,3]: shapes differ");
  }
  EXPECT_THROW(mul(a, cast(a, DType::bf16)), ProgramError);
  EXPECT_THROW(relu(builder.input("i", {{3}, DType::i32})), ProgramError);
  EXPECT_THROW(clip(a, 1, 1), ProgramError);
}

TEST(Copies, CastRoundsAndReturnsWhatNeedsNone) {
  Builder builder;
  Val x = builder.input("x", {{3}});
  EXPECT_EQ(cast(x, DType::f32).id, x.id);
  builder.output("y", cast(cast(x, DType::f16), DType::f32));
  test::Evaluator eval(builder.take());
  eval.set("x", {0.1f, 65520, -2049});
  eval.run();
  EXPECT_EQ(eval.floats("y"), (Floats{0x1.998p-4f, kInf, -2048}));
}

TEST(Copies, UpdatesCarryState) {
  Builder builder;
  Val x = builder.input("x", {{2}});
  Val copy = builder.state("copy", {{2}, DType::bf16}, Role::weight);
  Val mean = builder.state("mean", {{2}}, Role::statistic);
  assign(copy, x);
  moving_average(mean, x, 0.25f);
  test::Evaluator eval(builder.take());
  eval.set("x", {1.00390625f, -8});
  eval.set("copy", {9, 9});
  eval.set("mean", {5, 0});
  eval.run();
  EXPECT_EQ(eval.floats("copy"), (Floats{1, -8}));
  EXPECT_EQ(eval.floats("mean"), (Floats{5 + 0.25f * (1.00390625f - 5), -2}));
}

TEST(Copies, AShutGateKeepsState) {
  for (float apply : {0.0f, 1.0f}) {
    Builder builder;
    Val x = builder.input("x", {{2}}), gate = builder.input("gate", gate_spec());
    assign(builder.state("copy", {{2}}, Role::weight), x, gate);
    moving_average(builder.state("mean", {{2}}, Role::statistic), x, 0.5f, gate);
    test::Evaluator eval(builder.take());
    eval.set("x", {2, NAN});
    eval.set("gate", {1, apply, 0, 0});
    eval.set("copy", {9, 8});
    eval.set("mean", {4, 6});
    eval.run();
    EXPECT_EQ(eval.floats("copy")[0], apply ? 2 : 9);
    EXPECT_EQ(eval.floats("mean")[0], apply ? 3 : 4);
    EXPECT_EQ(std::isnan(eval.floats("copy")[1]), apply != 0);
    EXPECT_EQ(std::isnan(eval.floats("mean")[1]), apply != 0);
  }
}

TEST(Copies, OffloadLivesInHostMemory) {
  Builder builder;
  Val x = builder.input("x", {{3}});
  Val out = copy_out(x), back = copy_in(out);
  EXPECT_EQ(builder.program().value(out.id).space, Space::host);
  EXPECT_EQ(builder.program().value(back.id).space, Space::device);
  EXPECT_EQ(builder.program().nodes[0].phase, Phase::offload);
  EXPECT_EQ(builder.program().nodes[1].phase, Phase::reload);
}

}  // namespace
}  // namespace pal
