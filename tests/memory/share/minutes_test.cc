// Jobs in turns of minutes: by hand.
#include "memory/share/minutes.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/error.h"

namespace pal::test {
namespace {

StepShape step_of_bytes(double ms, int64_t own, int64_t alone) {
  StepShape shape;
  shape.name = "step";
  shape.tick = {0, int64_t(ms * 1e6), int64_t(ms * 1e6)};
  shape.nodes.push_back({.work_ms = ms, .units = 0.1});
  shape.node.push_back(NodeId(0));
  shape.own_bytes = own, shape.alone_bytes = alone;
  return shape;
}

// Both fit: nothing moves, each has its turn of 10 ms, in whole steps.
TEST(Minutes, WhereAllFitOnlyTheTurnsCount) {
  const StepShape a = step_of_bytes(1, 100, 300), b = step_of_bytes(4, 100, 200);
  const SimulatedRun run = simulate_minutes({&a, &b}, {.slice_ms = 10, .budget = 400}, 44);
  ASSERT_EQ(run.steps[0].size(), 20u);
  ASSERT_EQ(run.steps[1].size(), 6u);
  EXPECT_NEAR(run.steps[1][0].begin_ms, 10, 1e-9);
  EXPECT_NEAR(run.steps[1][2].end_ms, 22, 1e-9) << "the step that ends after the turn is the last";
  EXPECT_NEAR(run.steps[0][10].begin_ms, 22, 1e-9);
  // Of the last 33 ms: 11 to 22 and 32 to 44 are b's.
  EXPECT_NEAR(run.rate[0], 10. / 33, 1e-9);
  EXPECT_NEAR(run.rate[1], 23. / 33, 1e-9);
  EXPECT_NEAR(run.waited_ms[0], 24, 1e-9);
}

// One byte less: b's own bytes leave before a's turn, and a's before b's. At 100 bytes a
// millisecond the first change costs 1 ms (a leaves, b was never there), each later one 2.
TEST(Minutes, WhatDoesNotFitMovesOutAndBack) {
  const StepShape a = step_of_bytes(1, 100, 300), b = step_of_bytes(4, 100, 300);
  const SimulatedRun run =
      simulate_minutes({&a, &b}, {.slice_ms = 10, .budget = 399, .link = 1e5}, 100);
  EXPECT_NEAR(run.steps[1][0].begin_ms, 11, 1e-9);
  EXPECT_NEAR(run.steps[0][10].begin_ms, 11 + 12 + 2, 1e-9);
  EXPECT_NEAR(run.steps[1][3].begin_ms, 25 + 10 + 2, 1e-9);
  const SimulatedRun long_run =
      simulate_minutes({&a, &b}, {.slice_ms = 10, .budget = 399, .link = 1e5}, 26'000);
  EXPECT_NEAR(long_run.rate[0], 10. / 26, 1e-9);
  EXPECT_NEAR(long_run.total(), 22. / 26, 1e-9);
}

// A hundredth of the bytes on a hundredth of the link: to the last byte, all that moves takes time.
TEST(Minutes, FewBytesOnASlowLinkTakeAsLong) {
  const auto steps_of = [](int64_t bytes) {
    const StepShape a = step_of_bytes(1, bytes, 3 * bytes), b = step_of_bytes(4, bytes, 3 * bytes);
    const MinutesOptions options{
        .slice_ms = 10, .budget = 4 * bytes - 1, .link = 1e3 * double(bytes)};
    std::vector<double> begins;
    for (const auto& steps : simulate_minutes({&a, &b}, options, 100).steps) {
      for (const SimulatedSpan& step : steps) begins.push_back(step.begin_ms);
    }
    return begins;
  };
  EXPECT_EQ(steps_of(1), steps_of(100));
}

// Of three jobs there is room for two: the one whose turn is furthest leaves.
TEST(Minutes, WhoseTurnIsFurthestLeaves) {
  const StepShape a = step_of_bytes(1, 100, 100), b = step_of_bytes(1, 100, 100),
                  c = step_of_bytes(1, 100, 100);
  const SimulatedRun run =
      simulate_minutes({&a, &b, &c}, {.slice_ms = 10, .budget = 200, .link = 1e5}, 1000);
  EXPECT_NEAR(run.steps[1][0].begin_ms, 10, 1e-9);
  EXPECT_NEAR(run.steps[2][0].begin_ms, 21, 1e-9) << "b leaves for c";
  EXPECT_NEAR(run.steps[0][10].begin_ms, 31, 1e-9) << "a is there still";
  EXPECT_NEAR(run.steps[1][10].begin_ms, 43, 1e-9) << "for b a leaves";
}

TEST(Minutes, AJobThatDoesNotFitAloneIsNamed) {
  const StepShape a = step_of_bytes(1, 100, 300);
  EXPECT_THROW(simulate_minutes({&a}, {.budget = 299, .link = 1e5}, 10), ProgramError);
  const StepShape b = step_of_bytes(1, 100, 100);
  EXPECT_THROW(simulate_minutes({&a, &b}, {.slice_ms = 1, .budget = 300}, 10), ProgramError)
      << "something moves, and there is no link";
}

}  // namespace
}  // namespace pal::test
