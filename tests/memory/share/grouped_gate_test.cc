// Groups of jobs that do not know of each other.
#include "memory/share/grouped_gate.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "memory/share/simulate.h"
#include "tests/memory/share/shapes.h"

namespace pal::test {
namespace {

StepShape step_of_ms(double ms) {
  StepShape shape;
  const auto ticks = int64_t(ms * 1e6);
  shape.tick = {0, ticks, ticks};
  shape.nodes.push_back({.work_ms = ms, .units = 0.1}), shape.node.push_back(NodeId(0));
  return shape;
}

std::unique_ptr<PoolGate> two_pairs() {
  std::vector<std::unique_ptr<PoolGate>> gates;
  gates.push_back(turn_gate()), gates.push_back(turn_gate());
  return grouped_gate(std::move(gates), {{0, 3}, {2, 1}});
}

// 0 and 3 go in turns, and beside them 2 and 1.
TEST(GroupedGate, PairsAreSideBySide) {
  const StepShape one = step_of_ms(1), three = step_of_ms(3);
  const auto gate = two_pairs();
  const SimulatedRun run = simulate(
      {{.programs = {&one}}, {.programs = {&one}}, {.programs = {&three}}, {.programs = {&three}}},
      *gate, 400);
  EXPECT_NEAR(run.rate[0], 0.25, 1e-9);
  EXPECT_NEAR(run.rate[3], 0.75, 1e-9);
  EXPECT_NEAR(run.rate[1], 0.25, 1e-9);
  EXPECT_NEAR(run.rate[2], 0.75, 1e-9);
  EXPECT_NEAR(run.steps[1][0].begin_ms, 0, 1e-9) << "job 1 asked first of its group";
  EXPECT_NEAR(run.steps[3][0].begin_ms, 1, 1e-9);
}

TEST(GroupedGate, ACopyGoesOnByItself) {
  const auto gate = two_pairs();
  gate->begin_step(0, 0), gate->begin_step(3, 0), gate->begin_step(1, 0);
  const auto copy = gate->clone();
  copy->leave(0);
  EXPECT_TRUE(copy->may_pass(3, 0));
  EXPECT_FALSE(gate->may_pass(3, 0));
  EXPECT_TRUE(gate->may_pass(1, 0));
  gate->end_step(0);
  EXPECT_TRUE(gate->may_pass(3, 0));
}

TEST(GroupedGate, EveryJobIsInAGroup) {
  std::vector<std::unique_ptr<PoolGate>> gates;
  gates.push_back(open_gate());
  EXPECT_THROW(grouped_gate(std::move(gates), {{0, 2}}), ProgramError);
}

}  // namespace
}  // namespace pal::test
