// Jobs that share a pool: other addresses, the same bits.
#include "memory/run/shared_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "core/error.h"
#include "tests/memory/running.h"

namespace pal::test {
namespace {

DeviceProfile card() {
  DeviceProfile profile;
  profile.f32 = profile.vector = 1e9, profile.memory = 1e9, profile.launch = 1e-6;
  return profile;
}

// A chain forward and its mirror backward: every value of the first half is read in the second.
Program hourglass(int depth, int64_t n) {
  Builder b;
  Val x = b.input("x0", {Shape{n}});
  Val w = b.state("w0", {Shape{n}}, Role::weight);
  std::vector<Val> kept{plus(x, w)};
  for (int i = 0; i < depth; ++i) kept.push_back(reverse(affine(kept.back(), 0.5f)));
  b.output("loss", sum(kept.back()));
  Val g = reverse(kept.back());
  for (int i = depth; i >= 0; --i) g = plus(reverse(g), kept[size_t(i)]);
  update(w, g);
  b.output("g", affine(g));
  return b.take();
}

struct Job {
  Ready ready;
  Plan plan{make_plan(ready.program, ready.storages, ready.layout)};
  StepShape shape{step_shape("job", ready.program, ready.storages, plan, card())};
  Arena arena;

  explicit Job(Program p) : ready(std::move(p)) {}
  int64_t height() const { return shape.alone_bytes - shape.own_bytes; }
};

using Jobs = std::vector<std::unique_ptr<Job>>;

std::vector<const StepShape*> shapes_of(const Jobs& jobs) {
  std::vector<const StepShape*> shapes;
  for (const auto& job : jobs) shapes.push_back(&job->shape);
  return shapes;
}

std::unique_ptr<SharedPool> pool_of(const Jobs& jobs, CorunWay way) {
  std::vector<int64_t> parts;
  for (const auto& job : jobs) parts.push_back(job->height());
  const int64_t bytes = way.pool_bytes;
  return std::make_unique<SharedPool>(std::move(way), jobs.size(), bytes, std::move(parts));
}

// Each job takes its steps in a thread of its own; whether each got the bits that it gets alone.
void run_all(const Jobs& jobs, SharedPool& pool, const std::vector<int>& steps) {
  std::vector<Results> results(jobs.size());
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<SharedPlan>> memories;
  for (size_t j = 0; j < jobs.size(); ++j) {
    memories.push_back(std::make_unique<SharedPlan>(
        jobs[j]->ready.storages, jobs[j]->plan, jobs[j]->shape, jobs[j]->arena, pool, JobId(j)));
  }
  for (size_t j = 0; j < jobs.size(); ++j) {
    threads.emplace_back([&, j] {
      results[j] = run_with(jobs[j]->ready, *memories[j], steps[j], {.poison = true});
      pool.leave(JobId(j));
    });
  }
  for (auto& t : threads) t.join();
  for (size_t j = 0; j < jobs.size(); ++j) {
    EXPECT_EQ(results[j], reference(jobs[j]->ready.program, steps[j])) << "job " << j;
  }
}

CorunWay tickets(const Jobs& jobs, int64_t bytes) {
  CorunWay way{.kind = CorunWay::Kind::tickets, .pool_bytes = bytes};
  way.placement = place_apart(shapes_of(jobs), bytes);
  return way;
}

TEST(SharedPool, EveryWayWithinEveryBudgetLeavesTheBits) {
  std::set<CorunWay::Kind> kinds;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Jobs jobs;
    jobs.push_back(std::make_unique<Job>(hourglass(20, 700 + 50 * int64_t(seed))));
    jobs.push_back(std::make_unique<Job>(seed % 3 == 0 ? hourglass(12, 900)
                                                       : random_program(seed, {.nodes = 60})));
    CorunSearch search(shapes_of(jobs));
    for (int i = -1; i <= 4; ++i) {
      const int64_t budget =
          search.least_bytes() + (search.most_bytes() - search.least_bytes()) * std::max(i, 0) / 4;
      const auto way = i < 0 ? search.turns() : search.within(budget);
      ASSERT_TRUE(way);
      kinds.insert(way->kind);
      const auto pool = pool_of(jobs, *way);
      EXPECT_LE(pool->bytes() + search.own_bytes(), budget);
      run_all(jobs, *pool, {7, 5});
      if (testing::Test::HasFailure()) FAIL() << "seed " << seed << ", " << to_string(way->kind);
    }
  }
  EXPECT_TRUE(kinds.contains(CorunWay::Kind::circle));
  EXPECT_TRUE(kinds.contains(CorunWay::Kind::beside));
  EXPECT_TRUE(kinds.contains(CorunWay::Kind::turns));
}

TEST(SharedPool, RandomJobsThreeAtATimeUnderTickets) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Jobs jobs;
    int64_t largest = 64, all = 0;
    for (uint64_t k = 0; k < 3; ++k) {
      jobs.push_back(std::make_unique<Job>(random_program(3 * seed + k, {.nodes = 60})));
      PoolOffsets unused;
      largest = std::max(largest, place_longest_first(jobs.back()->shape, unused));
      all += jobs.back()->height();
    }
    const auto pool = pool_of(jobs, tickets(jobs, largest + all * int64_t(seed % 4) / 8));
    run_all(jobs, *pool, {5, 4, 6});
  }
}

// What a run does: training steps, then a validation of another shape, and so on.
TEST(SharedPool, JobsChangeTheirProgramsOnTheWay) {
  Jobs jobs, others;
  for (int j = 0; j < 2; ++j) {
    jobs.push_back(std::make_unique<Job>(hourglass(16, 800)));
    others.push_back(std::make_unique<Job>(hourglass(5 + j, 500)));
  }
  CorunSearch search(shapes_of(jobs));
  std::optional<CorunWay> way;
  for (int i = 0; i < 16 && (!way || way->kind != CorunWay::Kind::circle); ++i) {
    way =
        search.within(search.least_bytes() + (search.most_bytes() - search.least_bytes()) * i / 16);
  }
  ASSERT_EQ(way->kind, CorunWay::Kind::circle);
  const auto pool = pool_of(jobs, *way);
  std::vector<std::thread> threads;
  std::vector<Results> results(2), of_others(2);
  for (size_t j = 0; j < 2; ++j) {
    threads.emplace_back([&, j] {
      SharedPlan main(jobs[j]->ready.storages, jobs[j]->plan, jobs[j]->shape, jobs[j]->arena, *pool,
                      JobId(j));
      for (int round = 0; round < 5; ++round) {
        results[j] = run_with(jobs[j]->ready, main, 4, {.poison = true});
        SharedPlan other(others[j]->ready.storages, others[j]->plan, others[j]->shape,
                         others[j]->arena, *pool, JobId(j));
        of_others[j] = run_with(others[j]->ready, other, 1 + int(j), {.poison = true});
      }
      pool->leave(JobId(j));
    });
  }
  for (auto& t : threads) t.join();
  for (size_t j = 0; j < 2; ++j) {
    EXPECT_EQ(results[j], reference(jobs[j]->ready.program, 4));
    EXPECT_EQ(of_others[j], reference(others[j]->ready.program, 1 + int(j)));
  }
  EXPECT_GT(pool->stats(0).switches, 2);
}

// A job that is busy elsewhere holds nobody up for longer than the other's patience.
TEST(SharedPool, AJobThatIsLateHoldsNobodyUp) {
  Jobs jobs;
  for (int j = 0; j < 2; ++j) jobs.push_back(std::make_unique<Job>(hourglass(16, 800)));
  CorunSearch search(shapes_of(jobs));
  std::optional<CorunWay> way;
  for (int i = 0; i < 16 && (!way || way->kind != CorunWay::Kind::circle); ++i) {
    way =
        search.within(search.least_bytes() + (search.most_bytes() - search.least_bytes()) * i / 16);
  }
  ASSERT_EQ(way->kind, CorunWay::Kind::circle);
  const auto pool = pool_of(jobs, *way);
  SharedPlan a(jobs[0]->ready.storages, jobs[0]->plan, jobs[0]->shape, jobs[0]->arena, *pool, 0);
  SharedPlan b(jobs[1]->ready.storages, jobs[1]->plan, jobs[1]->shape, jobs[1]->arena, *pool, 1);
  const Results first = run_with(jobs[0]->ready, a, 6);  // the other never takes a step
  EXPECT_EQ(first, reference(jobs[0]->ready.program, 6));
  EXPECT_GT(pool->stats(0).waits, 0);
  EXPECT_EQ(run_with(jobs[1]->ready, b, 6), reference(jobs[1]->ready.program, 6));
}

TEST(SharedPool, AJobThatDoesNotFitAloneIsRefused) {
  Jobs jobs;
  jobs.push_back(std::make_unique<Job>(hourglass(10, 500)));
  const auto pool = pool_of(jobs, tickets(jobs, 0));
  const auto small = std::make_unique<SharedPool>(
      CorunWay{.kind = CorunWay::Kind::tickets, .pool_bytes = 0}, 1, jobs[0]->height() / 2);
  EXPECT_NE(message_of<BudgetError>([&] {
              small->add(0, jobs[0]->shape, jobs[0]->plan);
            }).find("job alone needs"),
            std::string::npos);
}

}  // namespace
}  // namespace pal::test
