// Which gradient nodes differentiate records, in what order sums are formed, and what it refuses.
#include "autograd/differentiate.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/verify.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/views.h"
#include "tests/support/eval.h"

namespace pal {
namespace {

int count(const Program& p, const std::string& op) {
  int n = 0;
  for (const Node& node : p.nodes) n += node.op->name == op;
  return n;
}

TEST(Differentiate, AValueReadTwiceGetsTheSum) {
  Builder b;
  Val x = b.input("x", {{3}});
  Val loss = sum_all(add(mul(x, x), tanh(x)));  // d = 2x + 1 - tanh² x
  b.output("dx", differentiate(b, loss, {x})[0]);
  verify(b.program());
  test::Evaluator eval(b.take());
  eval.set("x", {0.5f, -1.0f, 2.0f});
  eval.run();
  const auto dx = eval.floats("dx");
  EXPECT_NEAR(dx[0], 2 * 0.5 + 1 - std::pow(std::tanh(0.5), 2), 1e-6);
  EXPECT_NEAR(dx[1], -2 + 1 - std::pow(std::tanh(1.0), 2), 1e-6);
  EXPECT_NEAR(dx[2], 4 + 1 - std::pow(std::tanh(2.0), 2), 1e-6);
}

TEST(Differentiate, ProductsAddOntoTheSumThemselves) {
  Builder b;
  Val x = b.input("x", {{2, 4}}), w = b.weight("w", {{4, 4}}, {});
  Val y = matmul(matmul(matmul(x, w), w), w);
  Val dw = differentiate(b, sum_all(y), {w})[0];
  EXPECT_EQ(count(b.program(), "add"), 0);
  EXPECT_EQ(b.program().value(dw.id).role, Role::weight_gradient);
}

// The tanh's gradient is there when the product's are made, and only one of these may add onto it.
TEST(Differentiate, AnOperandThatStandsTwiceIsAddedOntoOnce) {
  Builder b;
  Val x = b.input("x", {{2, 2}});
  Val square = sum_all(matmul(x, x));
  b.output("dx", differentiate(b, add(square, sum_all(tanh(x))), {x})[0]);
  test::Evaluator eval(b.take());
  const float at[] = {0.5f, -1.0f, 2.0f, 0.25f};
  eval.set("x", {at[0], at[1], at[2], at[3]});
  eval.run();
  const auto dx = eval.floats("dx");
  for (size_t i = 0; i < 2; ++i) {
    for (size_t j = 0; j < 2; ++j) {  // row j's sum, column i's sum, and tanh's
      const double x_ij = at[2 * i + j];
      const double expected =
          at[2 * j] + at[2 * j + 1] + at[i] + at[2 + i] + 1 - std::pow(std::tanh(x_ij), 2);
      EXPECT_NEAR(dx[2 * i + j], expected, 1e-5);
    }
  }
}

// Of a weight that is read as a copy in 16 bits, also by an operator that asks for no type.
TEST(Differentiate, WeightsHaveF32Gradients) {
  Builder b;
  b.read_weights_as(DType::bf16, cast);
  Val w = b.weight("w", {{4, 6}}, {}), x = b.input("x", {{3, 4}});
  EXPECT_EQ(w.spec().dtype, DType::bf16);
  EXPECT_EQ(x.spec().dtype, DType::bf16);
  const Val master{&b, b.program().find_state("w")->start};
  Val whole = sum_all(tanh(reshape(w, {24}))), product = sum_all(tanh(matmul(x, w)));
  const Val dw = differentiate(b, add(whole, product), {master})[0];
  EXPECT_EQ(dw.spec(), (TensorSpec{{4, 6}}));
  verify(b.program());
}

TEST(Differentiate, WalksOnlyWhatTheLossAndTheWeightsShare) {
  Builder b;
  Val x = b.input("x", {{4}}), w = b.weight("w", {{4}}, {}), unused = b.weight("u", {{4}}, {});
  tanh(w);                  // not part of the loss
  Val frozen = sigmoid(x);  // reaches no weight
  Val loss = sum_all(mul(frozen, w));
  const NodeId forward = b.program().node_count();
  auto g = differentiate(b, loss, {w, unused});
  EXPECT_TRUE(g[0]);
  EXPECT_FALSE(g[1]);
  EXPECT_EQ(count(b.program(), "tanh_grad"), 0);
  EXPECT_EQ(count(b.program(), "sigmoid_grad"), 0);
  EXPECT_EQ(count(b.program(), "mul"), 2);  // one for w's gradient, none for frozen's
  for (NodeId n = forward; n < b.program().node_count(); ++n) {
    EXPECT_EQ(b.program().node(n).phase, Phase::backward);
  }
}

// A value between operators may be asked for; what is before it is not walked over.
TEST(Differentiate, WalksNoFurtherThanWhatIsAskedFor) {
  Builder b;
  Val x = b.input("x", {{4}});
  Val y = tanh(x);
  auto g = differentiate(b, sum_all(sigmoid(y)), {y});
  EXPECT_TRUE(g[0]);
  EXPECT_EQ(count(b.program(), "sigmoid_grad"), 1);
  EXPECT_EQ(count(b.program(), "tanh_grad"), 0);
}

TEST(Differentiate, StartsFromAnAccumulator) {
  Builder b;
  Val x = b.input("x", {{1, 3}}), w = b.weight("w", {{3, 1}}, {});
  Val sum = b.state("accumulator/w", {{3, 1}}, Role::weight_gradient);
  Val dw = differentiate(b, sum_all(matmul(x, w)), {w}, {sum})[0];
  b.output("dw", dw);
  test::Evaluator eval(b.take());
  eval.set("x", {1, 2, 3});
  eval.set(w.id, {0, 0, 0});
  eval.set(sum.id, {10, 20, 30});
  eval.run();
  EXPECT_EQ(eval.floats("dw"), (std::vector<float>{11, 22, 33}));
}

TEST(Differentiate, AGradientBelongsToItsLayersScopeAndStep) {
  Builder b;
  Val w = b.weight("w", {{4}}, {});
  Val y;
  {
    Builder::Within scope(b, "rnn", 5);
    y = tanh(w);
  }
  differentiate(b, sum_all(y), {w});
  for (const Node& node : b.program().nodes) {
    if (std::string(node.op->name) == "tanh_grad") {
      EXPECT_EQ(b.program().scope_of(node), "rnn t=5");
    }
  }
}

TEST(Differentiate, TheLossIsOneNumber) {
  Builder b;
  Val w = b.weight("w", {{4}}, {});
  EXPECT_THROW(differentiate(b, tanh(w), {w}), ProgramError);
}

}  // namespace
}  // namespace pal
