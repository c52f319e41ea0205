// Jobs that keep their shift on a circle.
#include "memory/share/pace.h"

#include <gtest/gtest.h>

#include "memory/share/corun_plan.h"
#include "memory/share/simulate.h"
#include "tests/memory/share/shapes.h"

namespace pal::test {
namespace {

// Half a step with all units, half with none.
StepShape half_and_half(int nodes) {
  StepShape shape;
  int64_t now = 0;
  for (int n = 0; n < nodes; ++n) {
    shape.node.push_back(NodeId(n));
    shape.nodes.push_back({.work_ms = 1, .units = n < nodes / 2 ? 1.0 : 0.0});
    shape.tick.push_back(now), shape.tick.push_back(now += 1'000'000);
  }
  shape.tick.push_back(now);
  return shape;
}

TEST(Paced, AJobWaitsForWhatTheOtherHasDoneByThen) {
  const StepShape shape = half_and_half(8);
  const Circle circle{
      shape.ticks(),
      {{&shape, 1, 0, shape.ticks()}, {&shape, 1, shape.ticks() * 3 / 8, shape.ticks()}}};
  const CircleWaits waits = paced(circle, {{{}}, {{}}});
  ASSERT_EQ(waits[0][0].size(), 1u);
  ASSERT_EQ(waits[1][0].size(), 1u);
  EXPECT_EQ(waits[1][0][0].moment, 0);
  EXPECT_EQ(waits[1][0][0].other_step, 0);
  EXPECT_EQ(waits[1][0][0].other_moment, 5) << "the third node";
  EXPECT_EQ(waits[0][0][0].other_step, -1);
  EXPECT_EQ(waits[0][0][0].other_moment, 9) << "the fifth, of the step before";
  EXPECT_NO_THROW(check_waits(circle, waits));
}

// Two that begin at once, each with a copy first, do not wait for each other's.
TEST(Paced, ACopyThatComesFirstIsNoProgress) {
  StepShape shape = half_and_half(8);
  shape.tick.insert(shape.tick.begin(), 2, 0);
  for (NodeId& node : shape.node) node = NodeId(int32_t(node) + 1);
  const Circle circle{shape.ticks(),
                      {{&shape, 1, 0, shape.ticks()}, {&shape, 1, 0, shape.ticks()}}};
  EXPECT_NO_THROW(check_waits(circle, paced(circle, {{{}}, {{}}})));
}

// Two that begin at once are in each other's way all the time; half a step apart never.
TEST(Paced, TheShiftDecidesHowFastTheyAre) {
  const StepShape shape = half_and_half(8);
  const auto total = [&](int64_t begins) {
    const Circle circle{shape.ticks(),
                        {{&shape, 1, 0, shape.ticks()}, {&shape, 1, begins, shape.ticks()}}};
    const auto gate = circle_gate(circle, paced(circle, {{{}}, {{}}}));
    return simulate({{.programs = {&shape}}, {.programs = {&shape}}}, *gate, 400).total();
  };
  EXPECT_NEAR(total(shape.ticks() / 2), 2, 0.02);
  EXPECT_LT(total(0), 1.6);
}

// No order of speeds makes a cycle, whatever the circle.
TEST(Paced, WaitsPointBackwards) {
  Random random(21);
  for (int round = 0; round < 300; ++round) {
    const StepShape a = random_shape(random, {.nodes = random.between(1, 8)});
    const StepShape b = random_shape(random, {.nodes = random.between(1, 8)});
    const int k = int(random.between(1, 3)), m = int(random.between(1, 3));
    Circle circle{0, {{&a, k, 0, a.ticks()}, {&b, m, 0, b.ticks()}}};
    circle.period = std::max(k * a.ticks(), m * b.ticks()) + random.below(3);
    circle.jobs[1].begins = random.below(circle.period);
    EXPECT_NO_THROW(check_waits(circle, paced(circle, {CircleWaits::value_type(size_t(k)),
                                                       CircleWaits::value_type(size_t(m))})))
        << round;
  }
}

}  // namespace
}  // namespace pal::test
