// Plans that copy to the host's memory: within memory.host_budget, and where the machine refuses
// the memory.
#include "train/loop/auto_steps.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <stdexcept>

#include "core/error.h"
#include "tests/memory/toy_card.h"
#include "tests/support/random_network.h"
#include "tests/support/resource_limit.h"

namespace pal {
namespace {

const DeviceProfile kLinked = test::toy_card(2e7);

MemoryConfig within(int64_t budget) {
  MemoryConfig config;
  config.budget = std::optional<Size>(Size{budget});
  return config;
}

// A step, and a budget whose fastest plan copies, though one within it does not.
struct Copied {
  Program step;
  int64_t budget = 0, host = 0;
};
Copied copied_step(int64_t batch) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Copied out{test::random_network(seed, {.layers = 6, .batch = batch})};
    KernelCache kernels{Device{}};
    const StateLayout layout(out.step);
    const Front front = make_front(out.step, kernels, layout, {.profile = kLinked});
    const int64_t plain = compile(out.step, kernels, layout).plan.device().bytes;
    bool without = false;
    for (const FrontPoint& point : front.points) {
      out.budget = point.bytes, out.host = point.host;
      if (without && point.offloaded > 0 && point.bytes < plain) return out;
      without |= point.offloaded == 0;
    }
  }
  throw std::runtime_error("no step has such plans");
}

TEST(AutoSteps, CopiesKeepToTheHostsBudget) {
  const Copied one = copied_step(int64_t(1) << 21);
  for (const int64_t host : {one.host, one.host - 1, int64_t(1)}) {
    MemoryConfig config = within(one.budget);
    config.host_budget = std::optional<Size>(Size{host});
    ProgramSet programs({}, Device{});
    AutoSteps steps(config, programs, "", kLinked);
    const Executable& made = steps.add("step", one.step);
    EXPECT_LE(made.compiled().plan.device().bytes, one.budget);
    ASSERT_TRUE(steps.point_of("step"));
    EXPECT_LE(made.compiled().plan.host().bytes, host);
    if (host == one.host) {
      EXPECT_GT(steps.point_of("step")->offloaded, 0);
    }
  }
}

// The front with copies may have dropped what does without: it is found for each host's memory, and
// a step is never slower with more of it.
TEST(AutoPlanner, WhatDoesWithoutCopiesIsFoundWhereTheFastestCopies) {
  int only_without = 0;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const Program step = test::random_network(seed, {.layers = 8, .batch = 16, .width = 32});
    KernelCache kernels{Device{}};
    const StateLayout layout(step);
    CompileOptions options{.profile = test::toy_card(1e8)};
    const AutoPlanner planner(options, {});
    const Front whole = planner.front(step, kernels, layout)->front;
    options.host_budget = 0;
    const Front none = AutoPlanner(options, {}).front(step, kernels, layout)->front;
    const int64_t least = none.points.front().bytes, host = whole.points.front().host;
    double before = std::numeric_limits<double>::infinity();
    for (const int64_t bytes : {int64_t(0), host / 3, host}) {
      const FrontLimits limits{.device = least, .host = bytes};
      const AutoPlan plan = planner.plan(step, kernels, layout, limits);
      EXPECT_EQ(plan.over, "") << seed;
      EXPECT_LE(plan.step.plan.device().bytes, least) << seed;
      EXPECT_LE(plan.step.plan.host().bytes, bytes) << seed;
      EXPECT_LE(plan.step.time->step_ms, before) << seed;
      before = plan.step.time->step_ms;
    }
    only_without += whole.pick({.device = least, .host = 0}) == nullptr;
  }
  EXPECT_GT(only_without, 0);
}

TEST(AutoSteps, LaterStepsTakeNoMorePinnedMemoryThanThereIs) {
  const Copied one = copied_step(int64_t(1) << 21);
  const MemoryConfig config = within(one.budget);
  ProgramSet programs({}, Device{});
  AutoSteps steps(config, programs, "", kLinked);
  Program small = test::random_network(1, {.layers = 2, .batch = 2});
  for (StateSlot& slot : small.state) slot.name = "small/" + slot.name;
  programs.declare(one.step);
  programs.declare(small);
  steps.add("small", small);  // copies nothing
  EXPECT_EQ(steps.point_of("small"), nullptr);
  steps.add("large", one.step);
  ASSERT_TRUE(steps.point_of("large"));
  EXPECT_EQ(steps.point_of("large")->offloaded, 0);
}

// A later step that keeps to the budget no other way takes memory that was not there before.
TEST(AutoSteps, ALaterStepThatHasToCopyDoes) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Program step = test::random_network(seed, {.layers = 12, .batch = 4096});
    KernelCache kernels{Device{}};
    const Front front =
        make_front(step, kernels, StateLayout(step), {.profile = test::toy_card(1e8)});
    const FrontPoint& least = front.points.front();
    if (least.offloaded == 0 || front.pick({.device = least.bytes, .host = 0})) continue;
    Program small = test::random_network(1, {.layers = 2, .batch = 2});
    for (StateSlot& slot : small.state) slot.name = "small/" + slot.name;
    const MemoryConfig config = within(least.bytes + StateLayout(small).bytes());
    ProgramSet programs({}, Device{});
    AutoSteps steps(config, programs, "", test::toy_card(1e8));
    programs.declare(step);
    programs.declare(small);
    steps.add("small", small);  // copies nothing
    EXPECT_EQ(steps.point_of("small"), nullptr);
    steps.add("large", step);
    ASSERT_TRUE(steps.point_of("large"));
    EXPECT_GT(steps.point_of("large")->offloaded, 0);
    return;
  }
  FAIL() << "no step has to copy";
}

// A later step that keeps to the budget in no way is refused, whatever the host's memory.
TEST(AutoSteps, ALaterStepThatNoPlanFitsIsRefused) {
  const Program step = test::random_network(1, {.layers = 4, .batch = 4096});
  Program small = test::random_network(1, {.layers = 2, .batch = 2});
  for (StateSlot& slot : small.state) slot.name = "small/" + slot.name;
  const MemoryConfig config =
      within(StateLayout(step).bytes() + StateLayout(small).bytes() + (int64_t(1) << 16));
  ProgramSet programs({}, Device{});
  AutoSteps steps(config, programs, "", kLinked);
  programs.declare(step);
  programs.declare(small);
  steps.add("small", small);
  EXPECT_THROW(steps.add("large", step), BudgetError);
}

// What a run under a budget touches is what the plan says, to the byte.
TEST(AutoSteps, TheHighestByteWrittenIsThePlans) {
  int plans = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const Program step = test::random_network(seed, {.layers = 10, .batch = 64});
    KernelCache kernels{Device{}};
    const DeviceProfile card = test::toy_card(seed % 2 ? 1e8 : 0);
    const Front front = make_front(step, kernels, StateLayout(step), {.profile = card});
    const int64_t least = front.points.front().bytes, most = front.points.back().bytes;
    for (const int64_t budget : {least, (least + most) / 2}) {
      ProgramSet programs({}, Device{});
      const MemoryConfig config = within(budget);
      AutoSteps steps(config, programs, "", card);
      Executable& made = steps.add("step", step);
      made.memory().fill_canary();
      made.run();
      EXPECT_EQ(made.memory().recorded_peak(), made.compiled().plan.device().bytes) << seed;
      EXPECT_LE(made.memory().recorded_peak(), budget) << seed;
      plans += steps.point_of("step") != nullptr;
    }
  }
  EXPECT_GT(plans, 6);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(AutoSteps, WhereTheMachineRefusesTheNextPlanIsTaken) {
  const Copied one = copied_step(int64_t(1) << 21);
  ASSERT_GE(one.host, int64_t(64) << 20);
  const MemoryConfig config = within(one.budget);
  ProgramSet programs({}, Device{});
  AutoSteps steps(config, programs, "", kLinked);
  testing::internal::CaptureStderr();
  const Executable& made = [&]() -> const Executable& {
    // Not enough for its copies; enough for a plan of fewer and the stacks of two queues' threads.
    const test::ResourceLimit limit(RLIMIT_AS,
                                    test::addresses_in_use() + one.budget + one.host * 3 / 4);
    return steps.add("step", one.step);
  }();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("of pinned memory, which is refused ("), std::string::npos) << said;
  EXPECT_LE(made.compiled().plan.device().bytes, one.budget);
  EXPECT_LT(made.compiled().plan.host().bytes, one.host);
}
#endif

}  // namespace
}  // namespace pal
