// Random programs under budgets that are too small for them: other addresses, the same bits.
#include "memory/dynamic/manage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/verify.h"
#include "memory/dynamic/policy.h"
#include "tests/memory/running.h"

namespace pal::test {
namespace {

const DeviceProfile kCard{
    .name = "card", .f32 = 1e12, .vector = 1e11, .memory = 1e11, .link = 2e10, .tile = 1};

// What the walk counts on comes true: no copy and no wait that it has forgotten.
void expect_no_slower(const StepFacts& facts, const DynamicOptions& options,
                      const StateLayout& layout, const Managed& managed, int64_t budget) {
  const int64_t fixed = least_managed(facts, layout) - facts.largest_bytes;
  const Decisions decisions = decide(facts, options, budget - fixed, int64_t(1) << 50);
  const double ms = predict(managed.step.program, kCard, &managed.step.storages).step_ms;
  EXPECT_LE(ms, decisions.ms * (1 + 1e-9));
}

Results run_managed(const Lowered& step, int steps) {
  verify(step.program);
  check_plan(step.program, step.storages, step.plan);
  KernelCache cache{Device{}};
  const auto kernels = prepare_all(step.program, cache);
  Arena arena(step.plan);
  StaticPlan memory(step.storages, step.plan, arena);

  return run_program(step.program, kernels, step.storages, memory, steps, {.poison = true});
}

int programs() { return int(programs_asked(150)); }

TEST(ManageProperty, DeltaKeepsBitsAtEveryBudget) {
  DynamicStats all;
  for (int seed = 0; seed < programs(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Ready r(random_program(uint64_t(seed), {.nodes = 20 + seed % 80, .gated = seed % 2 == 0}),
            {.inplace = seed % 3 != 0});
    const StepFacts facts(r.program, r.storages, kCard);
    const int64_t most = make_plan(r.program, r.storages, r.layout).device().bytes;
    const int64_t least = least_managed(facts, r.layout);
    const Results expected = reference(r.program, 2);
    for (int64_t budget : {std::max(least, most), std::max(least, (most + 2 * least) / 3), least}) {
      DynamicOptions options{.manager = Manager::delta, .filter = Filter(seed % 3)};
      Managed managed;
      try {
        managed = manage(facts, r.layout, options, budget);
      } catch (const BudgetError& error) {
        ADD_FAILURE() << budget << " of " << least << ": " << error.what();
        continue;
      }
      ASSERT_LE(managed.step.plan.device().bytes, budget);
      ASSERT_EQ(run_managed(managed.step, 2), expected) << "budget " << budget;
      expect_no_slower(facts, options, r.layout, managed, budget);
      all.evictions += managed.stats.evictions, all.offloads += managed.stats.offloads;
      all.reloads += managed.stats.reloads, all.recomputes += managed.stats.recomputes;
      all.prefetch_hits += managed.stats.prefetch_hits,
          all.compactions += managed.stats.compactions;
    }
  }
  EXPECT_GT(all.evictions, 0);
  EXPECT_GT(all.offloads, 0);
  EXPECT_GT(all.reloads, 0);
  EXPECT_GT(all.recomputes, 0);
  EXPECT_GT(all.prefetch_hits, 0);
  EXPECT_GT(all.compactions, 0);
}

// DTR may refuse, and says so; it never computes anything else.
TEST(ManageProperty, DtrKeepsBitsOrRefuses) {
  DynamicStats all;
  int runs = 0, refused = 0;
  // First those in which something once left that was half made, or was banished
  // while something else was being made of it.
  std::vector<int> seeds{7644, 9406, 35708};
  for (int seed = 0; seed < programs(); ++seed) seeds.push_back(seed);
  for (const int seed : seeds) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Ready r(random_program(uint64_t(seed), {.nodes = 20 + seed % 80, .gated = seed % 2 == 0}),
            {.inplace = seed % 3 == 0});
    const StepFacts facts(r.program, r.storages, kCard);
    const int64_t most = make_plan(r.program, r.storages, r.layout).device().bytes;
    const int64_t least = least_managed(facts, r.layout);
    const Results expected = reference(r.program, 2);
    for (int part = 0; part < 3; ++part) {
      const int64_t budget = std::max(least, least + (most - least) * (3 - part) / 4);
      const DynamicOptions options{
          .manager = Manager::dtr, .dtr = DtrHeuristic(seed % 6), .dealloc = Dealloc(seed / 6 % 2)};
      ++runs;
      try {
        const Managed managed = manage(facts, r.layout, options, budget);
        ASSERT_LE(managed.step.plan.device().bytes, budget);
        ASSERT_EQ(managed.stats.offloads + managed.stats.reloads, 0);
        ASSERT_EQ(run_managed(managed.step, 2), expected) << "budget " << budget;
        all.evictions += managed.stats.evictions, all.recomputes += managed.stats.recomputes;
      } catch (const BudgetError& error) {
        EXPECT_NE(std::string(error.what()).find("memory.manager: dtr"), std::string::npos);
        ++refused;
      }
    }
  }
  EXPECT_LT(refused, 2 * runs / 3);
  EXPECT_GT(all.evictions, 0);
  EXPECT_GT(all.recomputes, 0);
}

}  // namespace
}  // namespace pal::test
