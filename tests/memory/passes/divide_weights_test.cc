// Weights as pieces: which nodes read which gather, under all passes; the same bits as whole
// weights; at most two groups of layers alive. One rank's piece is the whole, so that all runs
// here.
#include "memory/passes/divide_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "autograd/differentiate.h"
#include "autograd/optimizer.h"
#include "core/scalars.h"
#include "core/verify.h"
#include "memory/storages/lifetimes.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/exchange/exchange.h"
#include "ops/products/matmul.h"
#include "ops/sums/gates.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/transfers.h"
#include "tests/memory/compiled_bits.h"

namespace pal::test {
namespace {

constexpr int64_t kWhole = 0;  // weights are not divided

struct Net {
  int layers = 6;
  int64_t together = kWhole;  // bytes
  bool tied = false;          // the first product's weight is the last one's too
  bool bf16 = false;
  bool biases = true;
  int64_t rows = 32;
};

Program step_of_net(const Net& net) {
  Builder b;
  if (net.bf16) b.read_weights_as(DType::bf16, cast);
  const Val scalars = step_scalars(b.input("scalars", scalars_spec(), Space::host));
  Val x = b.input("x", {{net.rows, 16}});
  const auto layer = [&](const std::string& name, bool bends) {
    Builder::Within scope(b, name);
    x = matmul(x, b.weight("w", {{16, 16}}, {}));
    if (bends && net.biases) x = add(x, b.weight("bias", {{net.rows, 16}}, {}));
    if (bends) x = tanh(x);
  };
  if (net.tied) layer("table", false);
  for (int i = 0; i < net.layers; ++i) layer("layer" + std::to_string(i), true);
  if (net.tied) layer("table", false);
  const Val loss = sum_all(cast(x, DType::f32));
  b.output("loss", loss);
  std::vector<Val> wholes, owned;
  std::vector<std::string> names;
  for (const StateSlot& slot : b.program().state) {
    wholes.push_back({&b, slot.start}), names.push_back(slot.name);
  }
  std::vector<Val> gradients = differentiate(b, loss, wholes);
  owned = wholes;
  if (net.together != kWhole) {
    b.program() = divide_weights(b.take(), 1, net.together);
    Builder::Within phase(b, Phase::backward);
    for (size_t i = 0; i < owned.size(); ++i) {
      owned[i].id = b.program().find_state(names[i])->start;
      gradients[i] = own_piece(gradients[i], 1);
    }
  }
  Builder::Within phase(b, Phase::backward);
  const Val gate = clip_norm_gate(scalars, loss, {});
  apply_optimizer(b, {.kind = OptimizerSpec::Kind::momentum}, owned, gradients, scalars, gate,
                  wholes);
  return b.take();
}

std::vector<NodeId> gathers_in(const Program& p) {
  std::vector<NodeId> out;
  for (NodeId n : p.nodes.ids()) {
    if (p.node(n).op == &all_gather_op) out.push_back(n);
  }
  return out;
}
// What is gathered, in order; a node's by the slots of its pieces.
std::vector<std::string> gathered(const Program& p) {
  std::vector<std::string> out;
  for (const NodeId n : gathers_in(p)) {
    std::string& names = out.emplace_back();
    for (ValueId v : p.node(n).in) {
      if (const NodeId made = p.value(v).producer; made != kNone) {  // a copy, perhaps of several
        const Node& copies = p.node(made);
        v = copies.in[size_t(std::find(copies.out.begin(), copies.out.end(), v) -
                             copies.out.begin())];
      }
      for (const StateSlot& slot : p.state) {
        if (slot.start == v) names += slot.name + " ";
      }
    }
  }
  return out;
}

std::vector<CompileOptions> all_options() {
  std::vector<CompileOptions> all(1);
  for (const Schedule schedule : {Schedule::program, Schedule::lifetime}) {
    for (const Recompute recompute :
         {Recompute::none, Recompute::mirror, Recompute::sqrt, Recompute::echo}) {
      for (const Swap swap : {Swap::none, Swap::naive, Swap::planned}) {
        CompileOptions o;
        o.schedule = schedule, o.recompute = recompute, o.swap.method = swap;
        all.push_back(o);
      }
    }
  }
  return all;
}

TEST(DividedWeights, AreGatheredForEachLayerAndEachPass) {
  const int64_t weight = 16 * 16 * 4, bias = 32 * 16 * 4;
  const Program p = step_of_net({.layers = 3, .together = weight + bias});
  verify(p);
  // A bias is read by no backward pass, so a second gather has two layers' weights within the
  // bytes.
  EXPECT_EQ(gathered(p), (std::vector<std::string>{"layer0/w layer0/bias ", "layer1/w layer1/bias ",
                                                   "layer2/w layer2/bias ", "layer2/w layer1/w "}));
  EXPECT_TRUE(has_divided_weights(p));
  EXPECT_FALSE(has_divided_weights(step_of_net({.layers = 3})));
  const Readers readers(p);
  for (const NodeId n : gathers_in(p)) {
    NodeId first = p.node_count();
    for (ValueId v : p.node(n).out) {
      for (NodeId r : readers[v]) {
        first = std::min(first, r);
        EXPECT_EQ(p.node(r).phase == Phase::forward, p.node(n).phase == Phase::forward);
      }
    }
    EXPECT_EQ(first, n + 1);
  }
}

TEST(DividedWeights, AtMostTwoGroupsAreAlive) {
  const int64_t weight = 16 * 16 * 4, bias = 32 * 16 * 4;
  const Program p = step_of_net({.layers = 9, .together = weight + bias});
  const Readers readers(p);
  std::vector<int> alive(size_t(p.node_count()), 0);
  for (const NodeId n : gathers_in(p)) {
    NodeId last = n;
    for (ValueId v : p.node(n).out) last = std::max(last, readers[v].back());
    for (NodeId m = n; m <= last; ++m) ++alive[size_t(m)];
  }
  EXPECT_LE(*std::max_element(alive.begin(), alive.end()), 2);
}

// The table is gathered for each end, not held from one to the other; its last product's gradient
// reads the second.
TEST(DividedWeights, ThatAreTiedAreGatheredForEachEnd) {
  const Program p = step_of_net({.layers = 8, .together = 1, .tied = true});
  verify(p);
  std::vector<NodeId> of_table;
  const std::vector<std::string> names = gathered(p);
  const std::vector<NodeId> nodes = gathers_in(p);
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == "table/w ") of_table.push_back(nodes[i]);
  }
  ASSERT_EQ(of_table.size(), 2u);
  const Readers readers(p);
  const auto first = readers[p.node(of_table[0]).out[0]],
             second = readers[p.node(of_table[1]).out[0]];
  EXPECT_EQ(first.size(), 1u);
  EXPECT_EQ(p.node(of_table[1]).phase, Phase::forward);
  EXPECT_EQ(p.node(second.front()).phase, Phase::forward);
  EXPECT_EQ(p.node(second.back()).phase, Phase::backward);
}

TEST(DividedWeights, KeepBitsAndOrderUnderAllPasses) {
  for (const Net& net : {Net{.layers = 2}, Net{.layers = 7}, Net{.layers = 5, .tied = true},
                         Net{.layers = 5, .tied = true, .bf16 = true}}) {
    const Program whole = step_of_net(net);
    KernelCache of_whole(cpu_device(1));
    const Bits wanted = bits_of(compile(whole, of_whole, StateLayout(whole), {}));
    for (const int64_t together : {int64_t(1), int64_t(4000), int64_t(1) << 20}) {
      Net divided = net;
      divided.together = together;
      const Program p = step_of_net(divided);
      const std::vector<std::string> order = gathered(p);
      for (const CompileOptions& options : all_options()) {
        SCOPED_TRACE(std::to_string(net.layers) + " layers, " + std::to_string(together) + ", " +
                     to_string(options.recompute) + ", " + to_string(options.schedule) + ", " +
                     name_of(options.swap.method));
        KernelCache cache(cpu_device(1));
        const Compiled c = compile(p, cache, StateLayout(p), options);
        ASSERT_NO_THROW(verify(c.program));
        EXPECT_EQ(gathered(c.program), order);
        const Bits found = bits_of(c);
        ASSERT_EQ(found.size(), wanted.size());
        for (const auto& [name, bytes] : wanted) EXPECT_TRUE(found.at(name) == bytes) << name;
      }
    }
  }
}

// A node that is run again reads what was gathered again: no whole outlives the forward phase for
// its sake, and the bytes that recomputation saves are saved.
TEST(DividedWeights, ClonesReadTheSecondGather) {
  int clones = 0, again = 0;
  for (const Recompute recompute : {Recompute::mirror, Recompute::sqrt, Recompute::echo}) {
    for (const int64_t together : {int64_t(1), int64_t(4000)}) {
      const Program p = step_of_net(
          {.layers = 9, .together = together, .tied = true, .biases = false, .rows = 256});
      KernelCache cache(cpu_device(1));
      CompileOptions options;
      options.recompute = recompute, options.recompute_options.heavy = 1e9;
      const Compiled c = compile(p, cache, StateLayout(p), options);
      const ByValue<ValueId> second = second_gathers(c.program);
      for (ValueId v : second) again += v != kNone;
      for (const Node& node : c.program.nodes) {
        if (node.phase == Phase::forward) continue;
        clones += node.phase == Phase::recompute;
        for (ValueId v : present(node.in)) EXPECT_EQ(second[v], kNone) << node.op->name;
      }
    }
  }
  EXPECT_GT(clones, 0);
  EXPECT_GT(again, 0);
}

TEST(DividedWeights, OfCopiesIn16BitsTheCopiesAreGathered) {
  for (const bool bf16 : {false, true}) {
    const Program p = step_of_net({.layers = 2, .together = 1, .bf16 = bf16});
    EXPECT_FALSE(gathers_in(p).empty());
    EXPECT_TRUE(has_divided_weights(p));
    const ByValue<ValueId> second = second_gathers(p);
    EXPECT_GT(std::count_if(second.begin(), second.end(), [](ValueId v) { return v != kNone; }), 0);
    for (const NodeId n : gathers_in(p)) {
      for (ValueId v : p.node(n).out) {
        EXPECT_EQ(p.value(v).spec.dtype, bf16 ? DType::bf16 : DType::f32);
      }
    }
  }
}

TEST(DividedWeights, RefuseWeightsThatAreWritten) {
  const Program p = step_of_net({.layers = 2});
  EXPECT_THROW(divide_weights(p, 2, 1), ProgramError);
}

}  // namespace
}  // namespace pal::test
