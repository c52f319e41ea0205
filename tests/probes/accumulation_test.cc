// Probe 11: one update over three micro-batches. Accumulators are state; the first program begins
// them, the middle ones add, the last adds and updates. The sums go on from step to step by the
// operators' own accumulating forms, as within one program.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/differentiate.h"
#include "core/op.h"
#include "core/print.h"
#include "core/verify.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/state.h"
#include "tests/probes/probe.h"

namespace pal::test {
namespace {

constexpr int64_t kRows = 12, kIn = 10, kHidden = 8, kOut = 5;
constexpr int kMicroBatches = 3;
const std::vector<std::string> kNames = {"W1", "b1", "W2"};

struct Model {
  Val loss;
  std::vector<Val> weights;
};

// A two-layer perceptron; `rows` examples, their losses weighted by c.
Model record(Builder& b, int64_t rows) {
  Val x = b.input("x", {{rows, kIn}}), c = b.input("c", {{rows, kOut}});
  Val w1 = b.state("W1", {{kIn, kHidden}}, Role::weight);
  Val b1 = b.state("b1", {{kHidden}}, Role::weight);
  Val w2 = b.state("W2", {{kHidden, kOut}}, Role::weight);
  Val y = matmul(tanh(linear(x, w1, b1)), w2);
  Val loss = sum_all(mul(mul(y, y), c));
  b.output("loss", loss);
  return {loss, {w1, b1, w2}};
}

enum class Which { first, middle, last };

// Every program of the set declares all of the state.
Program micro_batch(Which which, bool use_start = true) {
  Builder b;
  Model m = record(b, kRows);
  std::vector<Val> sums;
  for (size_t i = 0; i < kNames.size(); ++i) {
    sums.push_back(b.state("sum/" + kNames[i], m.weights[i].spec(), Role::weight_gradient));
  }
  const bool starts = which == Which::first || !use_start;
  const auto g = differentiate(b, m.loss, m.weights, starts ? std::vector<Val>{} : sums);
  for (size_t i = 0; i < g.size(); ++i) {
    if (which == Which::last) {
      b.output("g/" + kNames[i], g[i]);
      assign(m.weights[i], sub(m.weights[i], scale(g[i], 0.125f)));
    } else {
      assign(sums[i], g[i]);
    }
  }
  Program p = b.take();
  verify(p);
  return p;
}

// The three in one program, written out by hand: same weights, each micro-batch's nodes after those
// of the one before, sums handed on as values.
Program by_hand() {
  Builder b;
  std::vector<Val> sums, weights;
  for (int i = 0; i < kMicroBatches; ++i) {
    Val x = b.input("x" + std::to_string(i), {{kRows, kIn}});
    Val c = b.input("c" + std::to_string(i), {{kRows, kOut}});
    weights = {b.state("W1", {{kIn, kHidden}}, Role::weight),
               b.state("b1", {{kHidden}}, Role::weight),
               b.state("W2", {{kHidden, kOut}}, Role::weight)};
    Val h = tanh(linear(x, weights[0], weights[1]));
    Val y = matmul(h, weights[2]);
    Val loss = sum_all(mul(mul(y, y), c));
    // d loss / d y = 2 y c, in the order in which the two operands of y y give it.
    Val dp = broadcast_leading(sum_all(b.input("one" + std::to_string(i), {{1}})), y.shape());
    Val dyy = mul(dp, c);
    Val one_side = mul(dyy, y);
    Val dy = b.emit1(add_broadcast_op, {one_side, one_side});
    Val sum_w2 = sums.empty() ? Val{} : sums[2];
    Val g2 = matmul(h, dy, true, false, sum_w2);
    Val dh = matmul(dy, weights[2], false, true);
    Val da = b.emit1(tanh_grad_op, {dh, h});
    Val g1 = matmul(x, da, true, false, sums.empty() ? Val{} : sums[0]);
    Val gb = sum_rows(da, sums.empty() ? Val{} : sums[1]);
    sums = {g1, gb, g2};
    b.output("loss" + std::to_string(i), loss);
  }
  for (size_t i = 0; i < kNames.size(); ++i) b.output("g/" + kNames[i], sums[i]);
  return b.take();
}

Program big_batch() {
  Builder b;
  Model m = record(b, kRows * kMicroBatches);
  const auto g = differentiate(b, m.loss, m.weights);
  for (size_t i = 0; i < g.size(); ++i) b.output("g/" + kNames[i], g[i]);
  return b.take();
}

std::vector<float> weight(size_t i) {
  const int64_t sizes[] = {kIn * kHidden, kHidden, kHidden * kOut};
  return random_floats(sizes[i], uint32_t(10 + i));
}
std::vector<float> batch_x(int i) { return random_floats(kRows * kIn, uint32_t(20 + i)); }
std::vector<float> batch_c(int i) { return random_floats(kRows * kOut, uint32_t(30 + i)); }

struct Result {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::vector<float>> gradients, weights;
};

// Runs first, middle and last over one state; `use_start` false: the last forgets the sums.
Result accumulated(bool use_start = true) {
  const Program programs[] = {micro_batch(Which::first), micro_batch(Which::middle),
                              micro_batch(Which::last, use_start)};
  StateLayout layout;
  for (auto& p : programs) layout.add(p);
  Arena arena;
  std::vector<std::unique_ptr<Planned>> planned;
  for (auto& p : programs) planned.push_back(std::make_unique<Planned>(p, layout, arena));
  for (size_t i = 0; i < kNames.size(); ++i) {
    planned[0]->set(kNames[i], weight(i));
    planned[0]->set("sum/" + kNames[i], std::vector<float>(weight(i).size(), NAN));  // unread
  }
  for (int i = 0; i < kMicroBatches; ++i) {
    planned[size_t(i)]->set("x", batch_x(i));
    planned[size_t(i)]->set("c", batch_c(i));
    planned[size_t(i)]->run();
  }
  Result out;
  for (auto& name : kNames) {
    out.bytes.push_back(planned[2]->bytes("g/" + name));
    out.gradients.push_back(planned[2]->floats("g/" + name));
    out.weights.push_back(planned[0]->floats(name));
  }
  return out;
}

TEST(Accumulation, ThreeMicroBatchesAreOneBigBatch) {
  const Result parts = accumulated();
  Planned big(big_batch());
  std::vector<float> x, c;
  for (int i = 0; i < kMicroBatches; ++i) {
    const auto xi = batch_x(i), ci = batch_c(i);
    x.insert(x.end(), xi.begin(), xi.end()), c.insert(c.end(), ci.begin(), ci.end());
  }
  big.set("x", x), big.set("c", c);
  for (size_t i = 0; i < kNames.size(); ++i) big.set(kNames[i], weight(i));
  big.run();
  for (size_t i = 0; i < kNames.size(); ++i) {
    EXPECT_LT(difference(parts.gradients[i], big.floats("g/" + kNames[i])), 1e-6) << kNames[i];
    auto updated = weight(i);
    for (size_t e = 0; e < updated.size(); ++e) updated[e] -= 0.125f * parts.gradients[i][e];
    EXPECT_EQ(parts.weights[i], updated) << kNames[i];
  }
}

TEST(Accumulation, SameBitsAsOneProgramWrittenByHand) {
  const Result parts = accumulated();
  Planned hand(by_hand());
  for (int i = 0; i < kMicroBatches; ++i) {
    const std::string n = std::to_string(i);
    hand.set("x" + n, batch_x(i)), hand.set("c" + n, batch_c(i)), hand.set("one" + n, {1});
  }
  for (size_t i = 0; i < kNames.size(); ++i) hand.set(kNames[i], weight(i));
  hand.run();
  for (size_t i = 0; i < kNames.size(); ++i) {
    EXPECT_EQ(parts.bytes[i], hand.bytes("g/" + kNames[i])) << kNames[i];
  }
}

TEST(Accumulation, ForgottenSumsAreNoticed) {
  const Result right = accumulated(), wrong = accumulated(false);
  for (size_t i = 0; i < kNames.size(); ++i) {
    EXPECT_GT(difference(wrong.gradients[i], right.gradients[i]), 0.05) << kNames[i];
  }
}

TEST(Accumulation, SumsAreFoldedIntoTheGradients) {
  // No node is there only to add to the accumulators: the middle program has those of the first.
  const Program first = micro_batch(Which::first), middle = micro_batch(Which::middle);
  ASSERT_EQ(middle.nodes.size(), first.nodes.size()) << print(middle);
  for (NodeId n = 0; n < first.node_count(); ++n) {
    EXPECT_STREQ(middle.node(n).op->name, first.node(n).op->name);
  }
}

}  // namespace
}  // namespace pal::test
