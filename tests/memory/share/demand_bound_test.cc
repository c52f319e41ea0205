// What no schedule can do better than: by hand, and against what simulated jobs do.
#include "memory/share/demand_bound.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "memory/share/simulate.h"
#include "tests/memory/share/shapes.h"

namespace pal::test {
namespace {

StepShape shape_of(const std::vector<NodeDemand>& nodes) {
  StepShape shape;
  int64_t now = 0;
  for (const NodeDemand& d : nodes) {
    shape.node.push_back(NodeId(shape.node.size())), shape.nodes.push_back(d);
    shape.tick.push_back(now);
    shape.tick.push_back(now += int64_t(1e6 * (d.idle_ms + d.launch_ms + d.work_ms)));
  }
  shape.tick.push_back(now);
  return shape;
}

TEST(DemandBound, UseIsAMeanOverTheStep) {
  const DeviceUse use = use_of(step_like(
      {.idle_ms = 1, .launch_ms = 1, .work_ms = 2, .flops = 0.2, .memory = 0.5, .units = 1}, 1));
  EXPECT_NEAR(use.flops, 0.1, 1e-12);
  EXPECT_NEAR(use.memory, 0.25, 1e-12);
  EXPECT_NEAR(use.units, 0.5, 1e-12);
  EXPECT_NEAR(use.most(), 0.5, 1e-12);
}

TEST(DemandBound, AJobIsNoFasterThanAlone) {
  const StepShape little = step_like({.work_ms = 1, .units = 0.1}, 1);
  EXPECT_NEAR(demand_bound({&little}).total, 1, 1e-12);
  EXPECT_NEAR(demand_bound({&little, &little, &little}).total, 3, 1e-12);
}

// Each asks most of another resource: all of both is used at 0.8 x + 0.2 y = 1 = 0.5 x + 0.9 y.
TEST(DemandBound, TwoResourcesAtOnce) {
  const StepShape a = step_like({.work_ms = 1, .flops = 0.8, .memory = 0.5}, 1);
  const StepShape b = step_like({.work_ms = 1, .flops = 0.6, .memory = 0.9}, 1);
  const DemandBound bound = demand_bound({&a, &b});
  EXPECT_NEAR(bound.rate[0], 5. / 7, 1e-9);
  EXPECT_NEAR(bound.rate[1], 5. / 7, 1e-9);
  EXPECT_NEAR(bound.total, 10. / 7, 1e-9);
}

// A job that asks for nearly nothing is worth more than one that asks for all, unless that one may
// not fall below its turns.
TEST(DemandBound, NoJobFallsBelowTheLeast) {
  const StepShape all = step_like({.work_ms = 1, .units = 1}, 1),
                  half = step_like({.work_ms = 1, .units = 0.5}, 1);
  EXPECT_NEAR(demand_bound({&all, &half}).total, 1.5, 1e-12);
  const DemandBound fair = demand_bound({&all, &half}, {0.8, 0.1});
  EXPECT_NEAR(fair.total, 1.2, 1e-12);
  EXPECT_NEAR(fair.rate[0], 0.8, 1e-12);
  EXPECT_EQ(demand_bound({&all, &all}, {0.6, 0.6}).total, 0) << "there is no such way";
}

// A node that takes all units for a third of the step; the rest asks for nothing, or for half of
// the units all the while. Beside the long node the other goes on by one stretch of its own.
TEST(DemandBound, ALongNodeMeetsOneStretchOfTheOther) {
  // Thirty nodes of a millisecond, in turn all units and none: means alone would allow 2.
  std::vector<NodeDemand> mixed, apart{{.work_ms = 15, .units = 1}, {.work_ms = 15}};
  for (int i = 0; i < 15000; ++i) {
    mixed.push_back({.work_ms = 0.001, .units = 1}), mixed.push_back({.work_ms = 0.001});
  }
  const StepShape a = shape_of(mixed), b = shape_of(apart);
  EXPECT_NEAR(demand_bound({&b, &b}).total, 2, 1e-9)
      << "one's first half beside the other's second";
  // While b works, a gets on by x with x / 2 units: 15 + x / 2 = x, so that x is 30, and b's step
  // takes 45 ms at least.
  const double bound = demand_bound({&a, &b}).total;
  EXPECT_NEAR(bound, 1 + 30. / 45, 0.06);
  const auto gate = open_gate();
  const double total =
      simulate({{.programs = {&a}}, {.programs = {&b}}}, *gate, 3000, {.first = {.job = 1}})
          .total();
  EXPECT_LE(total, bound);
}

// Long nodes of any lengths between short ones, whoever goes first and whoever is late.
TEST(DemandBound, NoOrderOfLongNodesIsAboveIt) {
  Random random(5);
  int close = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<StepShape> shapes;
    double round_ms = 0;
    for (int j = 0; j < 2; ++j) {
      std::vector<NodeDemand> nodes;
      for (int64_t n = random.between(2, 60); n > 0; --n) {
        NodeDemand d{.launch_ms = double(random.between(0, 3)),
                     .work_ms = double(random.between(1, 9)),
                     .flops = double(random.between(0, 2)) / 4,
                     .units = double(random.between(0, 4)) / 4};
        if (random.one_in(6)) d.work_ms = double(int64_t{1} << random.between(3, 9)), d.units = 1;
        nodes.push_back(d);
      }
      shapes.push_back(shape_of(nodes));
      round_ms += shapes.back().ms();
    }
    const double bound = demand_bound({&shapes[0], &shapes[1]}).total;
    double best = 0;
    for (const Preference first : {Preference{}, {.job = 0}, {.job = 1}, {.light = true}}) {
      const auto gate = open_gate();
      const SimulatedJob a{.programs = {&shapes[0]}}, b{.programs = {&shapes[1]}};
      best = std::max(best, simulate({a, b}, *gate, 200 * round_ms, {.first = first}).total());
    }
    // What began before the time that counts may end in it.
    EXPECT_LE(best, bound * 1.02) << round;
    close += best > 0.95 * bound;
  }
  EXPECT_GT(close, 50);
}

// Three jobs beside each other and in turns stay below it; with work for all units at any time
// they reach it.
TEST(DemandBound, NoSimulatedRunIsAboveIt) {
  Random random(3);
  int close = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<StepShape> shapes;
    double round_ms = 0;
    for (int64_t j = random.between(1, 4); j > 0; --j) {
      shapes.push_back(random_shape(random, {.nodes = random.between(1, 9), .ticks = 1000}));
      round_ms += shapes.back().ms();
    }
    std::vector<SimulatedJob> jobs;
    std::vector<const StepShape*> of;
    for (const StepShape& shape : shapes)
      jobs.push_back({.programs = {&shape}}), of.push_back(&shape);
    const auto gate = random.one_in(4) ? turn_gate() : open_gate();
    const double total = simulate(jobs, *gate, 200 * round_ms).total();
    const double bound = demand_bound(of).total;
    // What began before the time that counts may end in it.
    EXPECT_LE(total, bound * 1.02) << round;
    EXPECT_GE(bound, 1 - 1e-9);
    close += total > 0.9 * bound;
  }
  EXPECT_GT(close, 50);
}

}  // namespace
}  // namespace pal::test
