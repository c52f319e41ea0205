// Jobs that share a pool of regions: other addresses, the same bits.
#include "memory/run/regions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "core/error.h"
#include "core/order.h"
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
