// What is typical of several timed runs, and what kinds of nodes take by it.
#include "memory/price/node_times.h"

#include <gtest/gtest.h>

#include "core/builder.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"

namespace pal::test {
namespace {

using Runs = std::vector<std::vector<int64_t>>;

TEST(TypicalRun, IsARunThatWasMeasured) {
  EXPECT_EQ(typical_run({}), std::vector<int64_t>{});
  EXPECT_EQ(typical_run({{30, 70}}), (std::vector<int64_t>{30, 70}));
  EXPECT_EQ(typical_run({{0, 0}, {0, 0}}), (std::vector<int64_t>{0, 0}));
}

// The median of each node would be 10, and their sum 30: no run takes so little.
TEST(TypicalRun, TakesWhatARunTakesWhereNodesAreSlowByTurns) {
  const Runs runs{{20, 10, 10}, {10, 20, 10}, {10, 10, 20}};
  int64_t whole = 0;
  for (const int64_t ns : typical_run(runs)) whole += ns;
  EXPECT_NEAR(double(whole), 40, 2) << "rounded, node by node";
}

// Two of three runs at half the speed say the same of each node's share as the third.
TEST(TypicalRun, ARunOnASlowerMachineCountsLikeAnyOther) {
  EXPECT_EQ(typical_run({{20, 180}, {10, 90}, {40, 160}}), (std::vector<int64_t>{20, 180}));
}

TEST(TypicalRun, OfAnEvenNumberTheFasterInTheMiddleIsTaken) {
  EXPECT_EQ(typical_run({{30, 90}, {10, 30}}), (std::vector<int64_t>{10, 30}));
  EXPECT_EQ(typical_run({{4, 4}, {1, 1}, {3, 3}, {2, 2}}), (std::vector<int64_t>{2, 2}));
}

TEST(TimedNodes, WhatDoesTheSameTakesTheMeanAndOthersTheOperatorsShare) {
  Builder b;
  const Val x = b.input("x", {Shape{1000}}), wide = b.input("wide", {Shape{2000}});
  b.output("y", mul(add(add(x, x), x), x));
  b.output("z", add(wide, wide));
  const Program p = b.take();  // add, add, mul, add
  TimedNodes timed;
  timed.add(p, {{4, 8, 3, 0}}, {{1, 1, 2, 0}});
  const NodeTimes times = timed.times();
  EXPECT_EQ(times.of(p, NodeId(0), 1), 6);
  EXPECT_EQ(times.of(p, NodeId(1), 1), 6);
  EXPECT_EQ(times.of(p, NodeId(2), 2), 3);
  EXPECT_EQ(times.of(p, NodeId(3), 5), 30) << "six times what is predicted, as other sums";
  EXPECT_EQ(times.scale, 15.0 / 4) << "of operators that were not timed";
}

}  // namespace
}  // namespace pal::test
