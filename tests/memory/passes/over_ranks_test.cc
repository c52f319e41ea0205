// Batch norm in parts with exchanges between: what the parts are, under all passes the same bits
// and the same order of exchanges. One rank's rows are all rows, so that all runs here.
#include "memory/passes/over_ranks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "autograd/differentiate.h"
#include "autograd/optimizer.h"
#include "core/print.h"
#include "core/scalars.h"
#include "core/verify.h"
#include "memory/passes/divide_weights.h"
#include "memory/recompute/recompute.h"
#include "memory/storages/lifetimes.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/exchange/exchange.h"
#include "ops/losses/cross_entropy.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/frame_norm.h"
#include "ops/norms/norm_over_ranks.h"
#include "ops/products/matmul.h"
#include "ops/sums/gates.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/transfers.h"
#include "ops/tensors/views.h"
#include "tests/memory/compiled_bits.h"

namespace pal::test {
namespace {

constexpr int64_t kSyncFrames = 40, kSyncBatch = 8, kSyncWidth = 32;

struct SyncNet {
  int blocks = 4;
  bool frames = false;  // frame norm
  bool synced = true;
  int64_t together = 0;  // bytes of weights that are gathered together; 0: they are not divided
  DType type = DType::f32;
};

// x = relu(norm(x w) + x), and its update.
Program synced_step(const SyncNet& net) {
  Builder b;
  if (net.type != DType::f32) b.read_weights_as(net.type, cast);
  const Val scalars = step_scalars(b.input("scalars", scalars_spec(), Space::host));
  Val x = b.input("x", {{kSyncFrames, kSyncBatch, kSyncWidth}});
  const Val lengths = b.input("lengths", {{kSyncBatch}, DType::i32});
  const Val labels = b.input("labels", {{kSyncFrames * kSyncBatch}, DType::i32});
  for (int k = 0; k < net.blocks; ++k) {
    Builder::Within scope(b, "block" + std::to_string(k));
    const Val w = b.weight("w", {{kSyncWidth, kSyncWidth}}, {});
    const Val y = matmul(x, w, false, false, {}, net.type);
    const Val gamma = b.weight("gamma", {{kSyncWidth}}, {}),
              beta = b.weight("beta", {{kSyncWidth}}, {});
    const Val normed =
        net.frames ? frame_norm(y, gamma, beta, lengths).y : batch_norm(y, gamma, beta).y;
    x = relu(k % 2 ? add(normed, x) : normed);
  }
  const Val loss =
      cross_entropy(reshape(x, {kSyncFrames * kSyncBatch, kSyncWidth}), labels, scalars).loss;
  b.output("loss", loss);
  std::vector<Val> wholes;
  std::vector<std::string> names;
  for (const StateSlot& slot : b.program().state) {
    wholes.push_back({&b, slot.start}), names.push_back(slot.name);
  }
  std::vector<Val> gradients = differentiate(b, loss, wholes), owned = wholes;
  if (net.synced) b.program() = over_ranks(b.take(), 1);
  if (net.together) {
    b.program() = divide_weights(b.take(), 1, net.together);
    for (size_t i = 0; i < owned.size(); ++i) {
      owned[i].id = b.program().find_state(names[i])->start;
    }
  }
  Builder::Within phase(b, Phase::backward);
  if (net.together) {
    for (Val& g : gradients) g = own_piece(g, 1);
  }
  const Val gate = clip_norm_gate(scalars, loss, {});
  apply_optimizer(b, {.kind = OptimizerSpec::Kind::momentum}, owned, gradients, scalars, gate,
                  wholes);
  return b.take();
}

int count_of_op(const Program& p, const OpDef& op, Phase phase) {
  int n = 0;
  for (const Node& node : p.nodes) n += node.op == &op && node.phase == phase;
  return n;
}
// What is exchanged, in order, by the values that the step was recorded with.
std::vector<std::string> exchanged_in(const Program& p) {
  std::vector<std::string> out;
  for (const Node& node : p.nodes) {
    if (!node.op->collective) continue;
    out.push_back(std::string(node.op->name) + " at " + p.scope_of(node) + " in " +
                  to_string(node.phase));
  }
  return out;
}

TEST(OverRanks, NormsAreTheirParts) {
  for (const bool frames : {false, true}) {
    const Program p = synced_step({.blocks = 3, .frames = frames});
    verify(p);
    for (const OpDef* whole :
         {&batch_norm_op, &batch_norm_grad_op, &frame_norm_op, &frame_norm_grad_op}) {
      for (const Phase phase : {Phase::forward, Phase::backward}) {
        EXPECT_EQ(count_of_op(p, *whole, phase), 0) << print(p);
      }
    }
    EXPECT_EQ(count_of_op(p, norm_moments_op, Phase::forward), 3);
    EXPECT_EQ(count_of_op(p, moments_over_ranks_op, Phase::forward), 3);
    EXPECT_EQ(count_of_op(p, frames ? frame_norm_apply_op : batch_norm_apply_op, Phase::forward),
              3);
    EXPECT_EQ(count_of_op(p, norm_gradient_sums_op, Phase::backward), 3);
    EXPECT_EQ(count_of_op(p, norm_gradient_apply_op, Phase::backward), 3);
    EXPECT_EQ(exchanged_in(p),
              (std::vector<std::string>{
                  "all_gather at block0 in forward", "all_gather at block1 in forward",
                  "all_gather at block2 in forward", "all_gather at block2 in backward",
                  "all_gather at block1 in backward", "all_gather at block0 in backward"}));
  }
}

// A step without such an operator is as it was.
TEST(OverRanks, OtherStepsStay) {
  Builder b;
  b.output("y", relu(b.input("x", {{3}})));
  const Program p = b.take();
  EXPECT_EQ(print(over_ranks(p, 4)), print(p));
}

// Of one rank: the numbers of the whole operator, but for the two roundings on the way.
TEST(OverRanks, OneRanksNormsAreNearTheWholeOnes) {
  for (const bool frames : {false, true}) {
    const Program parts = synced_step({.frames = frames});
    const Program whole = synced_step({.frames = frames, .synced = false});
    const Bits a = bits_of(parts), b = bits_of(whole);
    for (const auto& [name, bytes] : b) {
      const auto* x = reinterpret_cast<const float*>(bytes.data());
      const auto* y = reinterpret_cast<const float*>(a.at(name).data());
      for (size_t i = 0; i < bytes.size() / 4; ++i) ASSERT_NEAR(x[i], y[i], 1e-4) << name;
    }
  }
}

TEST(OverRanks, KeepBitsAndOrderUnderAllPasses) {
  int clones = 0;
  for (const SyncNet& net :
       {SyncNet{}, SyncNet{.frames = true}, SyncNet{.type = DType::bf16}, SyncNet{.together = 1},
        SyncNet{.frames = true, .together = 1 << 20}}) {
    const Program p = synced_step(net);
    const std::vector<std::string> order = exchanged_in(p);
    SyncNet plain = net;
    plain.together = 0;
    const Program undivided = synced_step(plain);
    KernelCache plain_cache(cpu_device(1));
    const Bits wanted = bits_of(compile(undivided, plain_cache, StateLayout(undivided), {}));
    for (const Schedule schedule : {Schedule::program, Schedule::lifetime}) {
      for (const Recompute recompute :
           {Recompute::none, Recompute::mirror, Recompute::sqrt, Recompute::echo}) {
        for (const Swap swap : {Swap::none, Swap::naive, Swap::planned}) {
          CompileOptions options;
          options.schedule = schedule, options.recompute = recompute, options.swap.method = swap;
          options.recompute_options.heavy = 4, options.recompute_options.overhead = 1e9;
          SCOPED_TRACE(std::string(to_string(recompute)) + ", " + to_string(schedule) + ", " +
                       name_of(swap) + (net.frames ? ", frames" : "") + ", " +
                       std::to_string(net.together));
          KernelCache cache(cpu_device(1));
          const Compiled c = compile(p, cache, StateLayout(p), options);
          ASSERT_NO_THROW(verify(c.program));
          EXPECT_EQ(exchanged_in(c.program), order);
          const Bits found = bits_of(c);
          ASSERT_EQ(found.size(), wanted.size());
          for (const auto& [name, bytes] : wanted) EXPECT_TRUE(found.at(name) == bytes) << name;
          const OpDef& apply = net.frames ? frame_norm_apply_op : batch_norm_apply_op;
          clones += count_of_op(c.program, apply, Phase::recompute);
          EXPECT_EQ(count_of_op(c.program, all_gather_op, Phase::recompute), 0);
        }
      }
    }
  }
  EXPECT_GT(clones, 0);
}

// Three numbers a channel are kept, and the map is made again from them.
TEST(OverRanks, EchoRunsWhatIsAppliedAgain) {
  for (const bool frames : {false, true}) {
    const Program p = synced_step({.frames = frames});
    const Program out =
        recompute(p, Recompute::echo, [](const Program& q) { return peak_bytes(q); }, nullptr,
                  {.heavy = 4, .overhead = 1e9});
    verify(out);
    EXPECT_LT(peak_bytes(out), peak_bytes(p));
    EXPECT_GT(
        count_of_op(out, frames ? frame_norm_apply_op : batch_norm_apply_op, Phase::recompute), 0);
    EXPECT_EQ(count_of_op(out, norm_moments_op, Phase::recompute), 0);
    EXPECT_EQ(exchanged_in(out), exchanged_in(p));
  }
}

}  // namespace
}  // namespace pal::test
