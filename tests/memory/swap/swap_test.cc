// Swapping keeps the bits, its copies fit the logical order, and what is planned is never slower
// than the baselines that fit as well.
#include "memory/swap/swap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "core/builder.h"
#include "core/order.h"
#include "core/print.h"
#include "core/verify.h"
#include "memory/compile.h"
#include "memory/passes/assign_queues.h"
#include "memory/storages/lifetimes.h"
#include "memory/swap/planned.h"
#include "ops/sums/reduce.h"
#include "tests/memory/compiled_bits.h"
#include "tests/memory/toy_card.h"
#include "tests/support/random_network.h"

namespace pal::test {
namespace {

// A card on which these small steps and their copies take about as long as each other.
DeviceProfile small_card(double link) {
  return {.name = "small",
          .f32 = 1e12,
          .vector = 1e12,
          .memory = 1e11,
          .link = link,
          .launch = 1e-8,
          .tile = 1};
}

struct Method {
  const char* name;
  SwapOptions options;
};
const Method kMethods[] = {{"naive", {.method = Swap::naive}},
                           {"vdnn conv", {.method = Swap::vdnn}},
                           {"vdnn all", {.method = Swap::vdnn, .vdnn = VdnnInputs::all}},
                           {"planned", {.method = Swap::planned}}};

Program network(uint64_t seed) {
  return random_network(seed, {.layers = 6 + int(seed % 14), .batch = 64, .width = 64});
}

int64_t offloads_of(const Program& p) {
  return std::count_if(p.nodes.begin(), p.nodes.end(),
                       [](const Node& node) { return node.phase == Phase::offload; });
}

TEST(SwapProperty, KeepsBits) {
  int lower = 0, copies = 0;
  for (uint64_t seed = 0; seed < networks_asked(12); ++seed) {
    const Program step = network(seed);
    KernelCache cache{Device{}};
    const StateLayout layout(step);
    for (const Recompute recompute : {Recompute::none, Recompute::echo}) {
      for (const bool inplace : {false, true}) {
        CompileOptions options;
        options.recompute = recompute, options.inplace = inplace;
        options.profile = small_card(2e10), options.must_fit = false;
        const Compiled stays = compile(step, cache, layout, options);
        const Bits bits = bits_of(stays);
        const int64_t all = stays.plan.device().bytes;
        for (const Method& method : kMethods) {
          for (const int part : {100, 80, 50}) {
            options.swap = method.options;
            options.budget.reset();
            if (part < 100 && method.options.method != Swap::planned) continue;
            if (part < 100) options.budget = all * part / 100;
            const Compiled swaps = compile(step, cache, layout, options);
            const std::string where = "seed " + std::to_string(seed) + " " + method.name + " " +
                                      to_string(recompute) + " at " + std::to_string(part);
            ASSERT_EQ(difference_of(step, bits, bits_of(swaps)), "") << where;
            copies += int(offloads_of(swaps.program));
            lower += swaps.plan.device().bytes < all;
          }
        }
      }
    }
  }
  EXPECT_GT(copies, 500);
  EXPECT_GT(lower, 50);
}

// Of what is chosen leaves what can, and nothing else where there is no budget; the bits stay.
TEST(Swap, WhatIsChosenLeaves) {
  int copies = 0;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const Program step = network(seed);
    KernelCache cache{Device{}};
    const StateLayout layout(step);
    CompileOptions options;
    options.profile = small_card(1e15), options.must_fit = false;
    const Bits bits = bits_of(compile(step, cache, layout, options));
    options.swap = {.method = Swap::planned, .chosen = std::vector<ValueId>{}};
    ASSERT_EQ(offloads_of(compile(step, cache, layout, options).program), 0) << seed;
    for (ValueId v : step.values.ids()) {
      const Value& value = step.value(v);
      if (value.producer == kNone || value.spec.bytes() < (8 << 10)) continue;
      if (step.node(value.producer).phase != Phase::forward) continue;
      options.swap.chosen = std::vector<ValueId>{v};
      const Compiled swaps = compile(step, cache, layout, options);
      ASSERT_LE(offloads_of(swaps.program), 4) << seed << " " << v;  // with views beside it
      ASSERT_EQ(difference_of(step, bits, bits_of(swaps)), "") << seed << " " << v;
      copies += int(offloads_of(swaps.program));
    }
  }
  EXPECT_GT(copies, 0);
}

// Where the target cannot be reached, only what keeps the step as low as it can be leaves: with any
// trip less, some node would have more than the highest has.
TEST(SwapProperty, BelowWhatCanBeNothingMoreLeaves) {
  int trips = 0;
  for (uint64_t seed = 0; seed < networks_asked(30); ++seed) {
    const Program p = network(seed);
    const Storages storages = assign_storages(p, ByNode<int64_t>(p.nodes.size(), 0));
    const std::vector<int64_t> live = live_bytes(p, storages, lifetimes_of(p, storages));
    SwapCosts costs{.node_ms = predict(p, small_card(5e10), &storages).node_ms};
    for (NodeId n : p.nodes.ids()) {
      costs.during.push_back(live[size_t(start_of(n))]);
      costs.after.push_back(live[size_t(done_of(n))]);
    }
    const std::vector<SwapUnit> units = swap_units(p, 1);
    costs.copy_ms.assign(units.size(), 1e-3);
    const auto any = std::numeric_limits<int64_t>::max();
    for (const SwapRank rank : {SwapRank::free_time, SwapRank::earliest, SwapRank::largest}) {
      SwapCosts left = costs;
      std::vector<std::pair<Gap, int64_t>> away;
      for (const Trip& trip : planned_trips(units, costs, 0, rank, any)) {
        const SwapUnit& unit = units[trip.unit];
        const auto gap = std::find_if(unit.gaps.begin(), unit.gaps.end(), [&](const Gap& g) {
          return g.after <= trip.leave && trip.come <= g.before;
        });
        ASSERT_NE(gap, unit.gaps.end());
        away.emplace_back(*gap, unit.bytes);
        for (NodeId n = gap->after + 1; n < gap->before; ++n) {
          left.during[n] -= unit.bytes;
          if (n + 1 < gap->before) left.after[n] -= unit.bytes;
        }
      }
      int64_t highest = 0;
      for (NodeId n : p.nodes.ids()) {
        highest = std::max({highest, left.during[n], left.after[n]});
      }
      for (const auto& [gap, bytes] : away) {
        int64_t with = 0;
        for (NodeId n = gap.after + 1; n < gap.before; ++n) {
          with = std::max(with, left.during[n] + bytes);
          if (n + 1 < gap.before) with = std::max(with, left.after[n] + bytes);
        }
        EXPECT_GT(with, highest) << "seed " << seed << ", after node " << gap.after;
        ++trips;
      }
    }
  }
  EXPECT_GT(trips, 100);
}

// One logical order and three queues: the same bytes at the peak.
TEST(SwapProperty, QueuesNeedNoMoreBytesThanTheLogicalOrder) {
  int64_t copies = 0;
  for (uint64_t seed = 0; seed < networks_asked(30); ++seed) {
    const Program p = network(seed);
    for (const Method& method : kMethods) {
      for (const int64_t percent : {0, 85, 70}) {
        SwapGoal goal{.device = small_card(5e10), .workspace = ByNode<int64_t>(p.nodes.size(), 0)};
        if (percent) goal.budget = peak_bytes(p) * percent / 100;
        const std::optional<Program> out = swapped(p, method.options, goal);
        if (!out) continue;
        verify(*out);
        const std::optional<Program> queued = assign_queues(*out);
        ASSERT_TRUE(queued);
        verify(*queued);
        EXPECT_LE(peak_bytes(*queued), peak_bytes(*out))
            << "seed " << seed << " " << method.name << " " << percent << " %";
        copies += offloads_of(*out);
      }
    }
  }
  EXPECT_GT(copies, 300);
}

// State of other programs of the set lies beside the step: what passes may fill is less by that.
TEST(Swap, TheBudgetHoldsStateThatTheStepDoesNotCarry) {
  int swapping = 0;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const Program p = network(seed);
    KernelCache cache{Device{}};
    const StateLayout alone(p);
    StateLayout shared(p);
    Builder b;
    const Val w = b.state("another", {{1 << 16}}, Role::optimizer_state);
    b.output("loss", sum_all(w));
    shared.add(b.take());
    const int64_t foreign = shared.bytes() - alone.bytes();
    ASSERT_GE(foreign, 4 << 16);
    CompileOptions options;
    options.swap.method = Swap::planned, options.profile = small_card(5e10);
    options.budget = compile(p, cache, alone).plan.device().bytes * 85 / 100;
    options.must_fit = false;
    const Compiled c = compile(p, cache, alone, options);
    *options.budget += foreign;
    const Compiled beside = compile(p, cache, shared, options);
    EXPECT_EQ(beside.plan.device().bytes, c.plan.device().bytes + foreign) << "seed " << seed;
    EXPECT_LE(least_bytes(p, cache, shared, options), beside.plan.device().bytes);
    swapping += offloads_of(c.program) > 0;
    // Queues are where copies are priced: to assign them changes nothing.
    for (const PassReport& report : c.passes) {
      if (report.name == "assign_queues") {
        EXPECT_EQ(report.added_ms, 0);
      }
    }
  }
  EXPECT_GT(swapping, 3);
}

struct Result {
  int64_t bytes;
  double ms;
};
Result result_of(const Program& p, const DeviceProfile& card) {
  const Program queued = assign_queues(p).value_or(p);
  const Storages storages = assign_storages(queued);
  return {peak_of(storages, lifetimes_of(queued, storages)).bytes,
          predict(queued, card, &storages).step_ms};
}

// At the bytes that a baseline reaches, and others: never slower than it.
TEST(SwapProperty, PlannedIsNeverSlowerThanTheBaselines) {
  int compared = 0;
  for (uint64_t seed = 0; seed < networks_asked(20); ++seed) {
    const Program p = network(seed);
    const ByNode<int64_t> workspace(p.nodes.size(), 0);
    for (const double link : {5e9, 2e10, 1e11}) {
      const DeviceProfile card = small_card(link);
      std::vector<Result> baselines;
      for (const Method& method : kMethods) {
        if (method.options.method == Swap::planned) continue;
        const auto out = swapped(p, method.options, {.device = card, .workspace = workspace});
        if (out) baselines.push_back(result_of(*out, card));
      }
      const Result plain = result_of(p, card);
      for (const Result& baseline : baselines) {
        if (baseline.bytes >= plain.bytes) continue;
        const auto out =
            swapped(p, {.method = Swap::planned},
                    {.budget = baseline.bytes, .device = card, .workspace = workspace});
        ASSERT_TRUE(out);
        const Result ours = result_of(*out, card);
        EXPECT_LE(ours.bytes, baseline.bytes) << seed;
        EXPECT_LE(ours.ms, baseline.ms) << seed;
        const double bound =
            link_bound_ms(p, {.budget = baseline.bytes, .device = card, .workspace = workspace});
        EXPECT_GE(ours.ms, bound * 0.9999) << seed;
        ++compared;
      }
      // Without a budget nothing may cost time.
      const auto free =
          swapped(p, {.method = Swap::planned}, {.device = card, .workspace = workspace});
      if (!free) continue;
      const Result ours = result_of(*free, card);
      EXPECT_LT(ours.bytes, plain.bytes);
      EXPECT_LE(ours.ms, plain.ms * 1.0001);
    }
  }
  EXPECT_GT(compared, 30);
}

// Echo for a part of what is over, and swapping for the rest: where swapping alone does, no slower.
TEST(SwapProperty, WithEchoBesideItIsNeverSlower) {
  int faster = 0;
  for (uint64_t seed = 0; seed < networks_asked(4); ++seed) {
    const Program step = random_network(seed, {.layers = 8, .batch = 64, .width = 16});
    const StateLayout layout(step);
    KernelCache cache{Device{}};
    CompileOptions options{.layouts = false, .profile = toy_card(1e7)};
    options.must_fit = false;
    const int64_t whole = compile(step, cache, layout, options).plan.device().bytes;
    options.swap.method = Swap::planned;
    for (const int percent : {95, 88}) {
      options.budget = whole * percent / 100;
      options.recompute = Recompute::none;
      const Compiled alone = compile(step, cache, layout, options);
      options.recompute = Recompute::echo;
      const Compiled both = compile(step, cache, layout, options);
      if (alone.plan.device().bytes > *options.budget) continue;
      EXPECT_LE(both.plan.device().bytes, *options.budget) << seed << " " << percent;
      EXPECT_LE(both.time->step_ms, alone.time->step_ms * 1.0001) << seed << " " << percent;
      faster += both.time->step_ms < 0.99 * alone.time->step_ms;
    }
  }
  EXPECT_GT(faster, 0);
}

// Where there is room nothing crosses; where the link is all, what is over crosses it twice.
TEST(Swap, TheLinksBoundIsTheTimeOfWhatIsOver) {
  const Program p = network(3);
  const ByNode<int64_t> workspace(p.nodes.size(), 0);
  const DeviceProfile slow = small_card(1e6);
  const Result plain = result_of(p, slow);
  const auto bound = [&](int64_t budget) {
    return link_bound_ms(p, {.budget = budget, .device = slow, .workspace = workspace});
  };
  EXPECT_DOUBLE_EQ(bound(plain.bytes), plain.ms);
  EXPECT_DOUBLE_EQ(bound(2 * plain.bytes), plain.ms);
  const double twice = 2 * double(plain.bytes / 2) / (1e-3 * slow.link * slow.link_efficiency);
  ASSERT_GT(twice, 1000 * plain.ms);
  EXPECT_GE(bound(plain.bytes - plain.bytes / 2), twice);
  EXPECT_LE(bound(plain.bytes - plain.bytes / 2), twice + plain.ms);
}

}  // namespace
}  // namespace pal::test
