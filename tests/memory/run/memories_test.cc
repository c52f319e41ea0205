// Dynamic and Regions: less memory, other addresses, the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "core/error.h"
#include "core/order.h"
#include "memory/run/regions.h"
#include "tests/memory/running.h"

namespace pal::test {
namespace {

// A chain forward and its mirror backward: every value of the first half is read in the second.
Program hourglass(int depth, int64_t n) {
  Builder b;
  Val x = b.input("x0", {Shape{n}});
  Val w = b.state("w0", {Shape{n}}, Role::weight);
  std::vector<Val> kept{add(x, w)};
  for (int i = 0; i < depth; ++i) kept.push_back(reverse(affine(kept.back(), 0.5f)));
  b.output("loss", sum(kept.back()));
  Val g = reverse(kept.back());
  for (int i = depth; i >= 0; --i) g = add(reverse(g), kept[size_t(i)]);
  update(w, g);
  b.output("g", affine(g));
  return b.take();
}

TEST(Dynamic, SameBitsWithHalfTheMemory) {
  Ready r(hourglass(30, 1000));
  const Plan plan = make_plan(r.program, r.storages, r.layout);
  const Results expected = reference(r.program, 3);
  for (bool recompute : {true, false}) {
    for (bool offload : {true, false}) {
      Arena arena;
      Dynamic memory(r.program, r.storages, r.layout, arena,
                     {.budget = plan.device().bytes / 2,
                      .recompute = recompute,
                      .offload = offload,
                      .bytes_per_s = 1e12});
      EXPECT_EQ(run_with(r, memory, 3), expected);
      EXPECT_GT(memory.stats().evictions, 0);
      EXPECT_LE(memory.stats().peak, plan.device().bytes / 2);
      EXPECT_EQ(memory.stats().replays > 0, recompute);
      EXPECT_EQ(memory.stats().offloads == memory.stats().evictions, !recompute);
    }
  }
}

TEST(Dynamic, NothingIsEvictedWhereAllFits) {
  Ready r(hourglass(10, 100));
  const Plan plan = make_plan(r.program, r.storages, r.layout);
  Arena arena;
  Dynamic memory(r.program, r.storages, r.layout, arena, {.budget = 2 * plan.device().bytes});
  EXPECT_EQ(run_with(r, memory, 2), reference(r.program, 2));
  EXPECT_EQ(memory.stats().evictions, 0);
  EXPECT_LE(memory.stats().peak, plan.device().bytes);
}

TEST(Dynamic, RandomProgramsUnderTightBudgets) {
  int64_t replays = 0, offloads = 0, runs = 0, refused = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Ready r(random_program(seed, {.nodes = 20 + int(seed % 80), .gated = seed % 2 == 0}),
            {.inplace = seed % 3 != 0});
    const Plan plan = make_plan(r.program, r.storages, r.layout);
    const int64_t least = Dynamic::smallest_budget(r.program, r.storages, r.layout);
    Arena arena;
    // As the budget falls, the answer is the same bits or a BudgetError, never anything else.
    for (int64_t budget : {plan.device().bytes, (plan.device().bytes + 2 * least) / 3, least}) {
      if (budget < least) continue;
      Dynamic memory(r.program, r.storages, r.layout, arena,
                     {.budget = budget, .offload = seed % 2 == 0, .bytes_per_s = 1e12});
      ++runs;
      try {
        ASSERT_EQ(run_with(r, memory, 2), reference(r.program, 2)) << "seed " << seed;
      } catch (const BudgetError&) {
        ++refused;
      }
      ASSERT_LE(memory.stats().peak, budget);
      replays += memory.stats().replays, offloads += memory.stats().offloads;
    }
  }
  EXPECT_LT(refused, runs / 2);
  EXPECT_GT(replays, 100);
  EXPECT_GT(offloads, 100);
}

TEST(Dynamic, SaysWhatIsMissing) {
  Ready r(hourglass(5, 1000));
  const int64_t least = Dynamic::smallest_budget(r.program, r.storages, r.layout);
  Arena arena;
  const std::string message = message_of<BudgetError>(
      [&] { Dynamic memory(r.program, r.storages, r.layout, arena, {.budget = least - 64}); });
  EXPECT_NE(message.find("64 short of"), std::string::npos) << message;
  Ready two(random_program(3, {.two_queues = true}));
  ASSERT_EQ(queue_count(two.program), 2);
  EXPECT_THROW(Dynamic(two.program, two.storages, two.layout, arena, {.budget = 1 << 20}),
               ProgramError);
}

struct Job {
  Ready ready;
  Plan plan{make_plan(ready.program, ready.storages, ready.layout)};
  Arena arena;
  Results expected;

  Job(Program p, int steps) : ready(std::move(p)), expected(reference(ready.program, steps)) {}
  int64_t transients() const { return plan.device().bytes - plan.device().transients_begin(); }
};

TEST(Regions, TwoJobsInAPoolThatHoldsOneAndABit) {
  for (int round = 0; round < 20; ++round) {
    const int steps = 10;
    Job a(hourglass(20, 700), steps), b(hourglass(12, 900), steps);
    const int64_t largest = std::max(a.transients(), b.transients());
    RegionPool pool((largest + largest / 4 + 1023) / 1024 * 1024, 1024);
    ASSERT_LT(pool.bytes(), a.transients() + b.transients());
    Regions ma(a.ready.program, a.ready.storages, a.plan, pool, a.arena, Regions::From::bottom);
    Regions mb(b.ready.program, b.ready.storages, b.plan, pool, b.arena, Regions::From::top);
    Results ra, rb;
    std::thread other([&] { rb = run_with(b.ready, mb, steps); });
    ra = run_with(a.ready, ma, steps);
    other.join();
    ASSERT_EQ(ra, a.expected);
    ASSERT_EQ(rb, b.expected);
    EXPECT_LE(pool.stats().peak, pool.bytes());
    EXPECT_GE(pool.stats().peak, std::min(a.transients(), b.transients()));
  }
}

TEST(Regions, RandomJobsThreeAtATime) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::vector<std::unique_ptr<Job>> jobs;
    int64_t largest = 64;
    for (uint64_t k = 0; k < 3; ++k) {
      jobs.push_back(std::make_unique<Job>(random_program(3 * seed + k, {.nodes = 60}), 5));
      largest = std::max(largest, jobs.back()->transients());
    }
    RegionPool pool((largest + 127) / 128 * 128, 128);
    std::vector<std::unique_ptr<Regions>> memories;
    for (size_t k = 0; k < 3; ++k) {
      memories.push_back(std::make_unique<Regions>(
          jobs[k]->ready.program, jobs[k]->ready.storages, jobs[k]->plan, pool, jobs[k]->arena,
          k == 1 ? Regions::From::top : Regions::From::bottom));
    }
    std::vector<Results> results(3);
    std::vector<std::thread> threads;
    for (size_t k = 0; k < 3; ++k) {
      threads.emplace_back([&, k] { results[k] = run_with(jobs[k]->ready, *memories[k], 5); });
    }
    for (auto& t : threads) t.join();
    for (size_t k = 0; k < 3; ++k) ASSERT_EQ(results[k], jobs[k]->expected) << "seed " << seed;
  }
}

TEST(Regions, AJobThatDoesNotFitAloneIsRefused) {
  Job a(hourglass(10, 500), 1);
  RegionPool pool(a.transients() / 2, 64);
  EXPECT_NE(message_of<BudgetError>([&] {
              Regions m(a.ready.program, a.ready.storages, a.plan, pool, a.arena,
                        Regions::From::bottom);
            }).find("the job alone needs"),
            std::string::npos);
  EXPECT_THROW(RegionPool(1024, 100), ProgramError);
}

// The second job must wait for bytes that the first still needs; alone, nobody waits.
TEST(Regions, WaitsOnlyForTheOther) {
  Job a(hourglass(10, 500), 3);
  RegionPool pool(align_up(a.transients()), 64);
  Regions m(a.ready.program, a.ready.storages, a.plan, pool, a.arena, Regions::From::top);
  EXPECT_EQ(run_with(a.ready, m, 3), a.expected);
  EXPECT_EQ(pool.stats().waits, 0);
  EXPECT_LE(pool.stats().peak, a.transients());
  EXPECT_GT(pool.stats().peak, a.transients() * 3 / 4) << "all but the outputs";
}

}  // namespace
}  // namespace pal::test
