// The best way for jobs to share, at budgets from turns to all that each needs.
#include "memory/share/corun_plan.h"

#include <gtest/gtest.h>

#include "memory/compile.h"
#include "memory/share/demand_bound.h"
#include "tests/memory/share/schedule.h"
#include "tests/support/random_network.h"

namespace pal::test {
namespace {

// Some nodes of the networks have work for all units, some for one.
const DeviceProfile kWideCard = {.name = "small",
                                 .f32 = 1e10,
                                 .vector = 1e10,
                                 .memory = 1e10,
                                 .launch = 1e-6,
                                 .units = 8,
                                 .tile = 64};

StepShape shape_of_network(uint64_t seed) {
  const Program step =
      random_network(seed, {.layers = 3 + int(seed % 5), .batch = 16, .width = 16});
  KernelCache cache{Device{}};
  CompileOptions options;
  options.profile = kWideCard;
  const Compiled c = compile(step, cache, StateLayout(step), options);
  return step_shape("net " + std::to_string(seed), c.program, c.storages, c.plan, kWideCard);
}

using Shapes = std::vector<const StepShape*>;

bool is_right(const Shapes& jobs, const CorunWay& way) {
  if (way.kind == CorunWay::Kind::circle) {
    check_placement(way.circle, way.placement);
    check_waits(way.circle, way.waits);
  }
  const bool places = way.kind == CorunWay::Kind::circle || way.kind == CorunWay::Kind::tickets;
  for (size_t j = 0; places && j < jobs.size(); ++j) {
    for (size_t i = 0; i < jobs[j]->buffers.size(); ++i) {
      const int64_t offset = way.placement.offset[j][i];
      if (offset < 0 || offset % 64) return false;
      if (offset + jobs[j]->buffers[i].bytes > way.pool_bytes) return false;
    }
  }
  return true;
}

// What was predicted comes out again: as long as it was simulated there, 12 rounds of a step each.
void check_rates(const Shapes& jobs, const CorunWay& way) {
  std::vector<SimulatedJob> simulated;
  double round_ms = 0;
  for (const StepShape* shape : jobs) {
    simulated.push_back({.programs = {shape}}), round_ms += shape->ms();
  }
  const auto gate = way.gate(jobs);
  const SimulatedRun run = simulate(simulated, *gate, 12 * round_ms, {.first = way.first});
  EXPECT_FALSE(run.stuck);
  double total = 0;
  for (size_t j = 0; j < jobs.size(); ++j) {
    // Turns are not simulated: their rates are known.
    EXPECT_NEAR(run.rate[j], way.rate[j], way.kind == CorunWay::Kind::turns ? 1e-2 : 1e-12);
    total += way.rate[j];
  }
  EXPECT_NEAR(way.total, total, 1e-9);
}

// Under the way's gate nobody takes bytes of the pool that another holds.
void check_gate(const Shapes& jobs, const CorunWay& way, Random& random) {
  if (way.kind != CorunWay::Kind::circle && way.kind != CorunWay::Kind::tickets) return;
  const auto gate = way.gate(jobs);
  std::vector<Player> players;
  for (size_t j = 0; j < jobs.size(); ++j)
    players.push_back({{jobs[j]}, {way.placement.offset[j]}});
  Schedule schedule(*gate, std::move(players), way.pool_bytes, random);
  ScheduleCounts counts;
  EXPECT_EQ(run_by_chance(schedule, jobs.size(), random, counts), "");
}

void check_budgets(const Shapes& jobs, std::vector<int>& kinds, Random& random) {
  CorunSearch search(jobs);
  const std::vector<double> turns = rates_in_turns(jobs);
  const int64_t least = search.least_bytes(), most = search.most_bytes();
  EXPECT_FALSE(search.within(least - 1));
  double before[2] = {1, 1};
  for (int i = 0; i <= 12; ++i) {
    const int64_t budget = least + (most - least) * i / 12;
    for (const CorunGoal goal : {CorunGoal::total, CorunGoal::fair}) {
      const std::optional<CorunWay> way = search.within(budget, goal);
      ASSERT_TRUE(way);
      EXPECT_LE(search.own_bytes() + way->pool_bytes, budget);
      EXPECT_GE(way->total, before[size_t(goal)] - 1e-9) << "at " << i << " of 12";
      before[size_t(goal)] = way->total;
      EXPECT_TRUE(is_right(jobs, *way));
      if (goal == CorunGoal::fair) {
        for (size_t j = 0; j < jobs.size(); ++j) EXPECT_GE(way->rate[j], turns[j] - 1e-9);
      }
      // Side by side, or else in turns.
      const std::optional<CorunWay> side = search.side_by_side(budget, goal);
      EXPECT_NEAR(way->total, std::max(1.0, side ? side->total : 0), 1e-12);
      if (side) {
        EXPECT_NE(side->kind, CorunWay::Kind::turns);
        EXPECT_LE(search.own_bytes() + side->pool_bytes, budget);
      }
      if (i % 3 == 0) check_rates(jobs, *way), check_gate(jobs, *way, random);
      ++kinds[size_t(way->kind)];
    }
  }
  EXPECT_GE(before[0], search.beside().total - 1e-9);
  EXPECT_TRUE(search.side_by_side(most));
  EXPECT_FALSE(search.side_by_side(search.own_bytes() - 1));
}

TEST(CorunPlan, MoreBytesAreNeverSlowerAndAllAreKeptWithin) {
  std::vector<StepShape> shapes;
  for (uint64_t seed = 0; seed < 8; ++seed) shapes.push_back(shape_of_network(seed));
  Random random(1);
  for (int i = 0; i < 8; ++i) {
    shapes.push_back(
        random_shape(random, {.nodes = 4 + 5 * i, .buffers = 5 + 5 * i, .ticks = 9999}));
  }
  std::vector<int> kinds(4, 0);
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    Shapes jobs;
    for (int64_t j = random.one_in(3) ? 3 : 2; j > 0; --j) {
      jobs.push_back(&shapes[size_t(random.below(int64_t(shapes.size())))]);
    }
    check_budgets(jobs, kinds, random);
  }
  for (const int kind : kinds) EXPECT_GT(kind, 10);
}

// A step of `n` equal nodes, whose one storage lives for the first half of it.
StepShape half_step(int64_t n, double units) {
  StepShape shape;
  for (int64_t i = 0; i < n; ++i) {
    shape.tick.push_back(1000 * i), shape.tick.push_back(1000 * (i + 1));
    shape.nodes.push_back({.work_ms = 1e-3, .units = units});
    shape.node.push_back(NodeId(int32_t(i)));
  }
  shape.tick.push_back(1000 * n);
  shape.buffers.push_back({{0, n - 1}, 6400, {}});
  shape.own_bytes = 64, shape.alone_bytes = 6464;
  return shape;
}

// One job's first half beside the other's second half: the bytes of one, the work of two.
TEST(CorunPlan, HalvesThatFitBetweenEachOtherShareAllTheirBytes) {
  const StepShape shape = half_step(40, 0.5);
  CorunSearch search({&shape, &shape});
  EXPECT_EQ(search.least_bytes(), 2 * 64 + 6400);
  EXPECT_EQ(search.most_bytes(), 2 * 6464);
  EXPECT_NEAR(search.beside().total, 2, 1e-9);
  const std::optional<CorunWay> way = search.within(search.least_bytes(), CorunGoal::fair);
  ASSERT_TRUE(way);
  EXPECT_EQ(way->pool_bytes, 6400);
  EXPECT_GT(way->total, 1.9);
}

// Beside each other neither gains, so that nothing is better than turns.
TEST(CorunPlan, WhatDoesNotGainStaysInTurns) {
  const StepShape shape = half_step(40, 1);
  CorunSearch search({&shape, &shape});
  EXPECT_NEAR(search.within(search.most_bytes())->total, 1, 1e-6);
  const std::optional<CorunWay> way = search.within(search.least_bytes());
  ASSERT_TRUE(way);
  EXPECT_NEAR(way->rate[0], 0.5, 1e-6);
}

// A small step whose nodes leave half of the device, and a large one that fills it: half-half slows
// the small one down; going first it is as fast as alone, and the other has the rest.
TEST(CorunPlan, TheJobThatLeavesMoreGoesFirst) {
  const StepShape small = half_step(10, 0.5), large = half_step(40, 1);
  CorunSearch search({&small, &large});
  const CorunWay& way = search.beside();
  EXPECT_EQ(way.first.job, 0);
  EXPECT_NEAR(way.rate[0], 1, 1e-6);
  EXPECT_NEAR(way.rate[1], 0.5, 1e-2);
  CorunSearch equal({&small, &large}, {.can_prefer = false});
  EXPECT_FALSE(equal.beside().first.any());
  EXPECT_NEAR(equal.beside().total, 2 / 1.5, 1e-2);
  CorunSearch alike({&large, &large});
  EXPECT_FALSE(alike.beside().first.any()) << "nothing to be gained";
}

// Two thirds of a step leave more than half of the device, the rest fills it. Where one job's light
// nodes meet the other's heavy ones, all of the device is used if the light ones go first.
TEST(CorunPlan, LightNodesGoFirst) {
  StepShape shape = half_step(300, 0.4);
  for (size_t n = 200; n < 300; ++n) shape.nodes[n].units = 1;
  CorunSearch with({&shape, &shape}), without({&shape, &shape}, {.can_prefer = false});
  const auto way = with.within(with.most_bytes()), other = without.within(with.most_bytes());
  EXPECT_TRUE(way->first.light);
  EXPECT_TRUE(way->paced);
  EXPECT_FALSE(other->first.any());
  EXPECT_GT(way->total, other->total + 0.05);
  EXPECT_LE(way->total, demand_bound({&shape, &shape}).total * 1.02);
}

TEST(CorunPlan, WhoCanLetAJobGoFirstIsNeverSlower) {
  int faster = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const StepShape a = shape_of_network(seed), b = shape_of_network(seed + 1);
    CorunSearch with({&a, &b}), without({&a, &b}, {.can_prefer = false});
    const int64_t least = with.least_bytes(), most = with.most_bytes();
    for (int i = 0; i <= 4; ++i) {
      const int64_t budget = least + (most - least) * i / 4;
      for (const CorunGoal goal : {CorunGoal::total, CorunGoal::fair}) {
        const auto one = with.within(budget, goal), other = without.within(budget, goal);
        EXPECT_GE(one->total, other->total - 1e-9);
        EXPECT_FALSE(other->first.any());
        faster += one->total > other->total + 1e-3;
      }
    }
  }
  EXPECT_GT(faster, 5);
}

TEST(CorunPlan, AJobAloneHasAll) {
  const StepShape shape = half_step(40, 1);
  CorunSearch search({&shape});
  EXPECT_EQ(search.least_bytes(), search.most_bytes());
  EXPECT_FALSE(search.within(search.least_bytes() - 1));
  EXPECT_NEAR(search.within(search.least_bytes())->total, 1, 1e-9);
}

}  // namespace
}  // namespace pal::test
