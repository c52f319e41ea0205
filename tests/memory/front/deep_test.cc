// Segments and the plans that rerun them: where a chain has borders, that claims are kept, the same
// bits, and that a step without borders has no such plans.
#include "memory/front/deep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "autograd/differentiate.h"
#include "autograd/optimizer.h"
#include "core/builder.h"
#include "core/scalars.h"
#include "memory/compile.h"
#include "memory/front/segments.h"
#include "memory/pass.h"
#include "memory/storages/lifetimes.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/dropout.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "tests/memory/compiled_bits.h"
#include "tests/memory/front/chain_network.h"
#include "tests/support/random_network.h"

namespace pal::test {
namespace {

CompileOptions on_small_card() {
  return {
      .profile = DeviceProfile{
          .name = "small", .f32 = 1e9, .vector = 1e9, .memory = 1e9, .launch = 1e-6, .tile = 1}};
}

// Residual blocks with a wide inside, as a Transformer's: x + W2 dropout(relu(W1 x)).
Program residual_chain(int blocks, int64_t batch = 64, int64_t width = 16) {
  Builder b;
  const Val scalars = b.input("scalars", scalars_spec());
  Val x = b.input("x", {{batch, width}});
  std::vector<Val> weights;
  const auto product = [&](Val v, int64_t from, int64_t to) {
    weights.push_back(b.state("w" + std::to_string(weights.size()), {{from, to}}, Role::weight));
    return matmul(v, weights.back());
  };
  x = tanh(product(x, width, width));
  for (int k = 0; k < blocks; ++k) {
    Builder::Within scope(b, "block" + std::to_string(k), k);
    Val wide = dropout(relu(product(x, width, 4 * width)), scalars, 0.25f);
    x = add(tanh(product(wide, 4 * width, width)), x);
  }
  const Val loss = sum_all(mul(x, b.input("c", x.spec())));
  b.output("loss", loss);
  const std::vector<Val> gradients = differentiate(b, loss, weights);
  apply_optimizer(b, {.kind = OptimizerSpec::Kind::sgd}, weights, gradients, scalars, {});
  return b.take();
}

TEST(Segments, ABorderForEveryBlockOfAChain) {
  const Program step = residual_chain(6);
  const StepView view(step);
  const CompileOptions options = on_small_card();
  const ByNode<double> ms = predict(step, *options.profile).node_ms;
  const Segments segments = find_segments(view, ms, 16);
  EXPECT_GE(segments.borders.size(), 5u);
  NodeId after = -1, later = step.node_count();
  for (const Segments::Border& border : segments.borders) {
    EXPECT_EQ(border.bytes, 64 * 16 * 4);  // one map
    EXPECT_EQ(border.storages.size(), 1u);
    EXPECT_GT(border.after, after);
    EXPECT_LT(border.later, later);
    after = border.after, later = border.later;
    // What the gradients after it read was made before it.
    for (ValueId v : step.values.ids()) {
      const NodeId made = step.value(v).producer;
      if (view.stays(v) || view.first_use[v] == kNone) continue;
      const auto& own = border.storages;
      if (std::find(own.begin(), own.end(), view.storage[v]) != own.end()) continue;
      EXPECT_EQ(made > border.after, view.last_use[v] < border.later) << v;
    }
  }
  // One block's share of the time is the least that a block takes.
  EXPECT_LE(find_segments(view, ms, 2).borders.size(), 1u);
}

// Every border of random chains holds just what crosses it, and splits the gradients as it says.
TEST(Segments, BordersHoldWhatCrossesThem) {
  size_t borders = 0, of_first = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const Program step = chain_network(seed, {.layers = 6 + int(seed % 20)});
    const StepView view(step);
    const ByNode<double> ms(step.nodes.size(), 1);
    const Segments segments = find_segments(view, ms, 8);
    NodeId turn = step.node_count();  // the first gradient
    for (NodeId n = step.node_count(); n-- > 0;) {
      if (step.node(n).phase != Phase::forward) turn = n;
    }
    for (const Segments::Border& border : segments.borders) {
      ++borders;
      std::set<StorageId> crossing;
      int64_t bytes = 0;
      for (ValueId v : step.values.ids()) {
        const StorageId s = view.storage[v];
        const NodeId made = step.value(v).producer;
        if (s == kNone || view.stays(v) || made == kNone || made > border.after) continue;
        if (segments.kept[s]) continue;
        NodeId last = made;
        for (NodeId n : step.nodes.ids()) {
          for (const ValueId in : present(step.node(n).in)) {
            if (n < turn && view.storage[in] == s) last = n;
          }
        }
        if (last > border.after && crossing.insert(s).second) {
          bytes += view.storage_bytes[s];
          of_first += made <= 1;
        }
      }
      EXPECT_EQ(border.bytes, bytes) << seed;
      EXPECT_EQ(std::set(border.storages.begin(), border.storages.end()), crossing) << seed;
    }
  }
  EXPECT_GT(borders, 100u);
  EXPECT_GT(of_first, 0u);
}

TEST(Deep, ReachesFarBelowAndKeepsItsClaims) {
  KernelCache cache{Device{}};
  const Program step = residual_chain(12);
  const StateLayout layout(step);
  CompileOptions base = on_small_card();
  base.recompute_options.bits = false;  // what runs again is not kept as bits, and claims say it is
  base.layouts = false;                 // copies of weights, which are as large as maps here
  const Bits expected = bits_of(compile(step, cache, layout, base));
  const int64_t whole = least_bytes(step, cache, layout, base);
  Program recorded = step;
  for (ValueId v : recorded.values.ids()) recorded.value(v).origin = v;
  const std::vector<DeepPlan> plans = deep_plans(recorded, base, *base.profile).alone;
  ASSERT_GT(plans.size(), 5u);
  int64_t least = whole;
  int twice = 0;
  for (const DeepPlan& plan : plans) {
    CompileOptions options = base;
    options.recompute = Recompute::reruns, options.recompute_options.reruns = plan.reruns;
    const Compiled c = compile(step, cache, layout, options);
    ASSERT_EQ(difference_of(step, expected, bits_of(c)), "") << plan.bytes;
    least = std::min(least, c.plan.device().bytes);
    std::map<ValueId, int> runs;
    bool again = false;
    for (const Rerun& rerun : plan.reruns) again |= ++runs[rerun.makes] > 1;
    twice += again;
    EXPECT_LE(plan.bytes, plan.claimed);
  }
  EXPECT_GT(twice, 3);
  EXPECT_LT(least, whole / 2);
  EXPECT_TRUE(std::is_sorted(plans.begin(), plans.end(), [](const auto& a, const auto& b) {
    return a.ms < b.ms && a.least > b.least;
  }));
}

// A count knows nothing of what other passes do about maps that are made again in the backward
// pass: it drops no plan that by its claim is beaten by none.
TEST(Deep, AClaimBelowTheCountHolds) {
  const CompileOptions base = on_small_card();
  Program step = residual_chain(12);
  for (ValueId v : step.values.ids()) step.value(v).origin = v;
  int above = 0, beaten_by_count = 0;
  const DeepPlan* faster = nullptr;
  const DeepPlans found = deep_plans(step, base, *base.profile);
  EXPECT_TRUE(found.with_copies.empty());  // the card has no link
  const std::vector<DeepPlan>& plans = found.alone;
  for (const DeepPlan& plan : plans) {
    EXPECT_EQ(plan.least, std::min(plan.claimed, plan.bytes));
    above += plan.bytes > plan.claimed;
    beaten_by_count += faster && plan.bytes >= faster->bytes;
    EXPECT_TRUE(!faster || plan.least < faster->least);
    faster = &plan;
  }
  EXPECT_GT(above, 0);
  EXPECT_GT(beaten_by_count, 0);
}

CompileOptions on_linked_card() {
  CompileOptions options = on_small_card();
  options.profile->link = 1e7;
  return options;
}
CompileOptions options_of(const DeepPlan& plan, CompileOptions options) {
  options.recompute = Recompute::reruns, options.recompute_options.reruns = plan.reruns;
  if (plan.away.empty()) return options;
  options.swap = {.method = Swap::planned, .chosen = plan.away};
  options.budget = plan.least + plan.least / 25;
  return options;
}

// What kernels here take beside the step, which no claim counts.
int64_t largest_workspace(const Compiled& c) {
  int64_t most = 0;
  for (const Storage& storage : c.storages.list) {
    if (storage.workspace_of != kNone) most = std::max(most, align_up(storage.bytes));
  }
  return most;
}

// Copies come later than the chain says, and not by much.
TEST(Deep, CopiesTakeAboutWhatTheyClaim) {
  KernelCache cache{Device{}};
  CompileOptions base = on_linked_card();
  base.layouts = false;  // a card packs no weights
  Program step = residual_chain(12);
  for (ValueId v : step.values.ids()) step.value(v).origin = v;
  const StateLayout layout(step);
  const Compiled recorded = compile(step, cache, layout, base);
  const Bits expected = bits_of(recorded);
  const DeepPlans plans = deep_plans(step, base, *base.profile);
  ASSERT_GT(plans.with_copies.size(), 5u);
  const int64_t workspace = largest_workspace(recorded);
  int within = 0, fast = 0;
  for (const DeepPlan& plan : plans.with_copies) {
    CompileOptions options = options_of(plan, base);
    *options.budget += workspace;
    const Compiled c = compile(step, cache, layout, options);
    ASSERT_EQ(difference_of(step, expected, bits_of(c)), "") << plan.least;
    within += peak_bytes(c.program, {}, storage_options(options)) <= *options.budget;
    fast += predict(c.program, *base.profile, &c.storages).step_ms <= 1.05 * plan.ms;
  }
  const auto size = int(plans.with_copies.size());
  EXPECT_EQ(within, size);
  EXPECT_GE(fast, size - size / 10);
  // Faster than what takes as many bytes by reruns alone.
  int slower = 0;
  for (const DeepPlan& plan : plans.alone) {
    if (plan.added_ms < 0.1 || plan.least < plans.with_copies.back().least) continue;
    ++slower;
    EXPECT_TRUE(std::any_of(
        plans.with_copies.begin(), plans.with_copies.end(),
        [&](const DeepPlan& other) { return other.least <= plan.least && other.ms < plan.ms; }))
        << plan.least;
  }
  EXPECT_GT(slower, 5);
}

// Steps with borders by chance, or without: the same bits, and the same plans each time.
TEST(Deep, SameBitsOnRandomNetworks) {
  KernelCache cache{Device{}};
  int some = 0, copied = 0;
  const uint64_t networks = networks_asked(30);
  for (uint64_t seed = 0; seed < networks; ++seed) {
    CompileOptions base = seed % 2 ? on_linked_card() : on_small_card();
    base.layouts = false;  // a card packs no weights
    Program step = random_network(seed, {.layers = 8 + int(seed % 12), .batch = 16, .width = 16});
    for (ValueId v : step.values.ids()) step.value(v).origin = v;
    const StateLayout layout(step);
    const auto found = [&] {
      DeepPlans plans = deep_plans(step, base, *base.profile, 6);
      std::vector<DeepPlan> all = std::move(plans.alone);
      std::move(plans.with_copies.begin(), plans.with_copies.end(), std::back_inserter(all));
      return all;
    };
    const std::vector<DeepPlan> plans = found(), again = found();
    ASSERT_EQ(plans.size(), again.size());
    if (plans.empty()) continue;
    const Compiled recorded = compile(step, cache, layout, base);
    const Bits expected = bits_of(recorded);
    const int64_t workspace = largest_workspace(recorded);
    for (size_t i = 0; i < plans.size(); ++i) {
      ASSERT_EQ(plans[i].reruns, again[i].reruns) << seed;
      ASSERT_EQ(plans[i].away, again[i].away) << seed;
      some += !plans[i].reruns.empty(), copied += !plans[i].away.empty();
      CompileOptions options = options_of(plans[i], base);
      if (options.budget) *options.budget += workspace;
      const Compiled c = compile(step, cache, layout, options);
      ASSERT_EQ(difference_of(step, expected, bits_of(c)), "") << "seed " << seed << " plan " << i;
    }
  }
  EXPECT_GT(some, 10);
  EXPECT_GT(copied, 10);
}

TEST(Deep, NoBordersNoPlans) {
  const CompileOptions base = on_small_card();
  Builder b;
  Val x = b.input("x", {Shape{64, 8}});
  b.output("y", tanh(x));  // no backward phase
  EXPECT_TRUE(deep_plans(b.take(), base, *base.profile).alone.empty());
  EXPECT_TRUE(deep_plans(Program{}, base, *base.profile).alone.empty());
}

}  // namespace
}  // namespace pal::test
