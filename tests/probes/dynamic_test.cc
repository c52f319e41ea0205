// Probe 9: the same step under a static plan, and under a dynamic manager with about half the
// bytes. What was evicted is made again or brought back, so all results have the same bits.
#include <gtest/gtest.h>

#include "core/error.h"
#include "memory/dynamic/manage.h"
#include "tests/probes/probe.h"

namespace pal::test {
namespace {

const DeviceProfile kCard{
    .name = "card", .f32 = 1e12, .vector = 1e11, .memory = 1e11, .link = 1e10, .tile = 1};

Program step() { return perceptron(12, 256, 16, true); }

using Bytes = std::vector<std::vector<std::byte>>;  // loss, gradients, updated weights

Bytes results_of(Running& running, int steps) {
  feed_perceptron(running, 1);
  for (int i = 0; i < steps; ++i) running.run();
  Bytes out;
  for (auto& o : running.program().outputs) out.push_back(running.bytes(o.name));
  for (auto& slot : running.program().state) out.push_back(running.bytes(slot.name));
  return out;
}

class DynamicMemory : public testing::TestWithParam<Manager> {};

TEST_P(DynamicMemory, SameBitsWithLessMemory) {
  for (const bool inplace : {true, false}) {
    const StorageOptions options{.inplace = inplace};
    Planned planned(step(), 1, options);
    const Bytes expected = results_of(planned.running(), 2);
    const Step recorded(step(), 1, options);
    const StateLayout layout(recorded.program);
    const StepFacts facts(recorded.program, recorded.storages, kCard);
    // dtr has nowhere to put what it cannot make again in time.
    const int64_t peak = planned.peak(Space::device);
    const int64_t budget = GetParam() == Manager::delta ? peak / 2 : peak * 3 / 4;
    Managed managed = manage(facts, layout, {.manager = GetParam()}, budget);
    EXPECT_GT(managed.stats.evictions + managed.stats.offloads, 0);
    ASSERT_LE(managed.step.plan.device().bytes, budget);
    Step lowered(managed.step.program);
    lowered.storages = managed.step.storages;
    Arena arena(managed.step.plan);
    arena.fill_canary();
    StaticPlan memory(lowered.storages, managed.step.plan, arena);
    Running running(lowered, memory);
    EXPECT_EQ(results_of(running, 2), expected);
  }
}
INSTANTIATE_TEST_SUITE_P(Managers, DynamicMemory, testing::Values(Manager::delta, Manager::dtr),
                         [](const auto& test) { return name_of(test.param); });

TEST(DynamicMemory, TooSmallABudgetIsRefused) {
  const Step recorded(step());
  const StateLayout layout(recorded.program);
  const StepFacts facts(recorded.program, recorded.storages, kCard);
  const int64_t least = least_managed(facts, layout);
  EXPECT_NO_THROW(manage(facts, layout, {.manager = Manager::delta}, least));
  EXPECT_THROW(manage(facts, layout, {.manager = Manager::delta}, least - 64), BudgetError);
}

}  // namespace
}  // namespace pal::test
