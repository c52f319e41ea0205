// Probe 2: recomputation clones a batch norm. The running statistics are moved by an update node of
// their own, so a clone moves nothing: gradients and state keep their bits.
#include "ops/norms/batch_norm.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "autograd/differentiate.h"
#include "core/error.h"
#include "core/op.h"
#include "core/print.h"
#include "core/verify.h"
#include "memory/storages/lifetimes.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/state.h"
#include "tests/probes/probe.h"

namespace pal::test {
namespace {

constexpr int64_t kRows = 32, kChannels = 24;
constexpr float kMomentum = 0.1f;

// loss = <c, bn(x W1) W2>: the gradient of W2 reads what batch norm made.
Program step() {
  Builder b;
  Val x = b.input("x", {{kRows, kChannels}}), c = b.input("c", {{kRows, kChannels}});
  Val w1 = b.state("W1", {{kChannels, kChannels}}, Role::weight);
  Val w2 = b.state("W2", {{kChannels, kChannels}}, Role::weight);
  Val gain = b.state("gain", {{kChannels}}, Role::weight);
  Val bias = b.state("bias", {{kChannels}}, Role::weight);
  Val running = b.state("running_mean", {{kChannels}}, Role::statistic);
  Val variance = b.state("running_variance", {{kChannels}}, Role::statistic);
  const BatchNorm norm = batch_norm(matmul(x, w1), gain, bias);
  Val loss = sum_all(mul(matmul(norm.y, w2), c));
  b.output("loss", loss);
  const std::vector<Val> weights = {w1, w2, gain, bias};
  const auto g = differentiate(b, loss, weights);
  for (size_t i = 0; i < g.size(); ++i) b.output("g" + std::to_string(i), g[i]);
  moving_average(running, norm.mean, kMomentum);
  moving_average(variance, norm.variance, kMomentum);
  Program p = b.take();
  verify(p);
  return p;
}

// A tiny recomputation: the node is run again just before its first backward reader, and backward
// readers read the clone's outputs. `with_update`: what a pass would do to an operator that moved
// its statistics itself: the move happens again.
Program recomputed(const Program& p, const std::string& op, bool with_update = false) {
  Builder b(p);
  const NodeId original = find_node(p, op);
  NodeId first = kNone;
  for (NodeId n = p.node_count(); n-- > 0;) {
    const Node& node = p.node(n);
    for (ValueId v : p.node(original).out) {
      const bool reads = std::find(node.in.begin(), node.in.end(), v) != node.in.end();
      if (v != kNone && reads && node.phase == Phase::backward) first = n;
    }
  }
  std::vector<NodeId> order;
  for (NodeId n = 0; n < p.node_count(); ++n) {
    if (n == first) order.push_back(p.node_count());
    order.push_back(n);
  }
  std::vector<Val> operands;
  for (ValueId v : p.node(original).in) operands.push_back(v == kNone ? Val{} : Val{&b, v});
  std::vector<Val> clones;
  {
    Builder::Within phase(b, p.node(original), Phase::recompute);
    clones = b.emit(*p.node(original).op, operands, p.node(original).attrs);
  }
  for (NodeId n = first; n < p.node_count(); ++n) {
    Node& node = b.program().node(n);
    if (node.phase != Phase::backward) continue;
    for (size_t i = 0; i < clones.size(); ++i) {
      std::replace(node.in.begin(), node.in.end(), p.node(original).out[i], clones[i].id);
    }
  }
  if (with_update) {
    const NodeId update = find_node(p, "moving_average");
    Val newest{&b, p.find_state("running_mean")->end};
    moving_average(newest, clones[1], p.node(update).attrs.as<MovingAverageAttrs>().momentum);
    order.push_back(b.program().node_count() - 1);
  }
  return permuted(b.program(), order);
}

struct Outcome {
  std::vector<std::vector<std::byte>> gradients, state;
  std::vector<float> running;
  bool operator==(const Outcome&) const = default;
};

Outcome run(const Program& program) {
  Planned p(program);
  p.set("x", random_floats(kRows * kChannels, 1)), p.set("c", random_floats(kRows * kChannels, 2));
  uint32_t seed = 3;
  for (auto& slot : program.state) {
    p.set(slot.name, random_floats(program.value(slot.start).spec.numel(), ++seed));
  }
  p.run();
  Outcome out;
  for (auto& o : program.outputs) out.gradients.push_back(p.bytes(o.name));
  for (auto& slot : program.state) out.state.push_back(p.bytes(slot.name));
  out.running = p.floats("running_mean");
  return out;
}

TEST(BatchNorm, ACloneChangesNoBit) {
  const Program plain = step(), cloned = recomputed(plain, "batch_norm");
  verify(cloned);
  EXPECT_EQ(count_nodes(cloned, "batch_norm"), 2) << print(cloned);
  EXPECT_EQ(count_nodes(cloned, "moving_average"), 2);  // of mean and variance, once each
  EXPECT_EQ(run(cloned), run(plain));
}

TEST(BatchNorm, TheCloneIsWhatTheBackwardPhaseReads) {
  const Program plain = step(), cloned = recomputed(plain, "batch_norm");
  const NodeId original = find_node(cloned, "batch_norm");
  const auto readers = readers_of(cloned);
  for (ValueId v : cloned.node(original).out) {
    for (NodeId reader : v == kNone ? std::vector<NodeId>{} : readers[size_t(v)]) {
      EXPECT_NE(cloned.node(reader).phase, Phase::backward) << print_node(cloned, reader);
    }
  }
  const NodeId clone = find_node(cloned, "batch_norm", original + 1);
  EXPECT_EQ(cloned.node(clone).phase, Phase::recompute);
  EXPECT_FALSE(readers[size_t(cloned.node(clone).out[0])].empty());
}

TEST(BatchNorm, StatisticsMoveOnce) {
  const Program plain = step();
  const Outcome once = run(recomputed(plain, "batch_norm"));
  // The mean of x W1 by channel, in double.
  const auto x = random_floats(kRows * kChannels, 1), w = random_floats(kChannels * kChannels, 4);
  const auto before = random_floats(kChannels, 8);
  std::vector<float> expected;
  for (int64_t channel = 0; channel < kChannels; ++channel) {
    double mean = 0;
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t k = 0; k < kChannels; ++k) {
        mean += double(x[size_t(r * kChannels + k)]) * w[size_t(k * kChannels + channel)];
      }
    }
    const double old = before[size_t(channel)];
    expected.push_back(float(old + kMomentum * (mean / kRows - old)));
  }
  EXPECT_LT(difference(once.running, expected), 1e-5);
}

// An impure batch norm would move them twice.
TEST(BatchNorm, AClonedUpdateIsNoticed) {
  const Program plain = step(), twice = recomputed(plain, "batch_norm", true);
  const Outcome right = run(plain), wrong = run(twice);
  EXPECT_EQ(wrong.gradients, right.gradients);
  EXPECT_GT(difference(wrong.running, right.running), 0.01);
}

// And a clone of the update that reads the same old value is no program at all.
TEST(BatchNorm, TwoUpdatesOfOneValueAreRefused) {
  Program p = step();
  const Node update = p.node(find_node(p, "moving_average"));
  Node again = update;
  p.values.push_back(p.value(update.out[0]));
  again.out = {ValueId(p.values.size() - 1)};
  p.nodes.push_back(again);
  p.relink();
  EXPECT_NE(error_of([&] { verify(p); }), "");
}

}  // namespace
}  // namespace pal::test
