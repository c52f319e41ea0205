// Jobs that share a pool: other addresses, the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "core/error.h"
#include "memory/share/pairs_plan.h"
#include "tests/memory/run/pool_jobs.h"

namespace pal::test {
namespace {

std::unique_ptr<SharedPool> pool_of(const PooledJobs& jobs, CorunWay way) {
  std::vector<int64_t> parts;
  for (const auto& job : jobs) parts.push_back(job->height());
  const int64_t bytes = way.pool_bytes;
  return std::make_unique<SharedPool>(std::move(way), jobs.size(), bytes, std::move(parts));
}

// Each job takes its steps in a thread of its own; whether each got the bits that it gets alone.
void run_all(const PooledJobs& jobs, SharedPool& pool, const std::vector<int>& steps) {
  std::vector<Results> results(jobs.size());
  std::vector<std::thread> threads;
  const auto memories = memories_of(jobs, pool);
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

TEST(SharedPool, EveryWayWithinEveryBudgetLeavesTheBits) {
  std::set<CorunWay::Kind> kinds;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    PooledJobs jobs;
    jobs.push_back(std::make_unique<PooledJob>(hourglass(20, 700 + 50 * int64_t(seed))));
    jobs.push_back(std::make_unique<PooledJob>(
        seed % 3 == 0 ? hourglass(12, 900) : random_program(seed, {.nodes = 60})));
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

using Shapes = std::vector<const StepShape*>;

std::vector<int64_t> parts_of(const Shapes& shapes) {
  std::vector<int64_t> parts;
  for (const StepShape* shape : shapes) parts.push_back(shape->alone_bytes - shape->own_bytes);
  return parts;
}

// The first two in turns, and the others.
CorunWay pairs_in_turns(const PooledJobs& jobs) {
  CorunWay way{.kind = CorunWay::Kind::groups};
  for (size_t first = 0; first < jobs.size(); first += 2) {
    auto& members = way.members.emplace_back();
    int64_t bytes = 0;
    for (size_t j = first; j < std::min(first + 2, jobs.size()); ++j) {
      members.push_back(JobId(j)), bytes = std::max(bytes, jobs[j]->height());
    }
    way.groups.push_back(turns(align_up(bytes)));
    way.pool_bytes += way.groups.back().pool_bytes;
  }
  return way;
}

// Pairs in parts of the pool, whatever their ways; a job that has none to be with; and now and then
// a program that is taller than the part, which runs alone.
TEST(SharedPool, PairsHaveAPartEachAndLeaveTheBits) {
  std::set<CorunWay::Kind> kinds;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    PooledJobs jobs, taller;
    for (uint64_t j = 0; j < 3 + seed % 2; ++j) {
      const int64_t n = 500 + 50 * int64_t(seed + j);
      jobs.push_back(std::make_unique<PooledJob>(j == 2 ? random_program(seed, {.nodes = 40})
                                                        : hourglass(10 + int(j), n)));
      taller.push_back(std::make_unique<PooledJob>(hourglass(30, n)));
    }
    const Shapes shapes = shapes_of(jobs);
    CorunSearch joint(shapes);
    PairsSearch pairs(shapes);
    for (int i = 0; i <= 4; ++i) {
      const int64_t budget =
          joint.least_bytes() + (joint.most_bytes() - joint.least_bytes()) * i / 4;
      const auto way = i == 0 ? pairs_in_turns(jobs) : pairs.within(budget);
      if (!way) continue;
      for (const CorunWay& group : way->groups) kinds.insert(group.kind);
      int64_t bytes = way->pool_bytes;
      for (const auto& job : taller) bytes = std::max(bytes, job->height());
      SharedPool pool(*way, jobs.size(), bytes, parts_of(shapes));
      std::vector<std::thread> threads;
      std::vector<Results> results(jobs.size()), of_taller(jobs.size());
      const auto memories = memories_of(jobs, pool), of_others = memories_of(taller, pool);
      for (size_t j = 0; j < jobs.size(); ++j) {
        threads.emplace_back([&, j] {
          for (int round = 0; round < 2; ++round) {
            results[j] = steps_of(jobs, *memories[j], j, 4);
            if (j != 1) of_taller[j] = steps_of(taller, *of_others[j], j, 2);
          }
          pool.leave(JobId(j));
        });
      }
      for (auto& t : threads) t.join();
      for (size_t j = 0; j < jobs.size(); ++j) {
        EXPECT_EQ(results[j], reference(jobs[j]->ready.program, 4)) << j;
        if (j == 1) continue;
        EXPECT_EQ(of_taller[j], reference(taller[j]->ready.program, 2)) << j;
      }
      if (testing::Test::HasFailure()) FAIL() << "seed " << seed << ", budget " << i;
    }
  }
  EXPECT_TRUE(kinds.contains(CorunWay::Kind::circle));
  EXPECT_TRUE(kinds.contains(CorunWay::Kind::beside));
  EXPECT_TRUE(kinds.contains(CorunWay::Kind::turns));
}

TEST(SharedPool, RandomJobsThreeAtATimeUnderTickets) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    PooledJobs jobs;
    int64_t largest = 64, all = 0;
    for (uint64_t k = 0; k < 3; ++k) {
      jobs.push_back(std::make_unique<PooledJob>(random_program(3 * seed + k, {.nodes = 60})));
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
  PooledJobs jobs, others;
  for (int j = 0; j < 2; ++j) {
    jobs.push_back(std::make_unique<PooledJob>(hourglass(16, 800)));
    others.push_back(std::make_unique<PooledJob>(hourglass(5 + j, 500)));
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

// Buckets of both jobs on one circle: whichever they run, in whatever order, the rule stays.
TEST(SharedPool, ProgramsOfACircleTakeItsSteps) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    std::vector<PooledJobs> jobs(2);  // by job, its programs, the largest first
    for (size_t j = 0; j < 2; ++j) {
      for (const int depth : {18, 12, 7}) {
        jobs[j].push_back(std::make_unique<PooledJob>(hourglass(depth, 600 + 50 * int64_t(seed))));
      }
    }
    const Shapes largest{&jobs[0][0]->shape, &jobs[1][0]->shape};
    CorunSearch search(largest);
    std::optional<CorunWay> way;
    for (int i = 0; i < 16 && (!way || way->kind != CorunWay::Kind::circle); ++i) {
      way = search.within(search.least_bytes() +
                          (search.most_bytes() - search.least_bytes()) * i / 16);
    }
    ASSERT_EQ(way->kind, CorunWay::Kind::circle);
    std::vector<std::vector<const StepShape*>> others;
    for (const PooledJobs& job : jobs) others.push_back({&job[1]->shape, &job[2]->shape});
    add_programs(*way, others, way->pool_bytes * 5 / 4);
    ASSERT_EQ(way->circle.jobs[0].others.size() + way->circle.jobs[1].others.size(), 4u);
    SharedPool pool(*way, 2, way->pool_bytes);
    std::vector<std::thread> threads;
    std::vector<int> wrong(2, 0);
    std::vector<std::vector<std::unique_ptr<SharedPlan>>> memories(2);
    for (size_t j = 0; j < 2; ++j) {
      for (const auto& job : jobs[j]) {
        memories[j].push_back(std::make_unique<SharedPlan>(job->ready.storages, job->plan,
                                                           job->shape, job->arena, pool, JobId(j)));
      }
    }
    for (size_t j = 0; j < 2; ++j) {
      threads.emplace_back([&, j] {
        std::mt19937 random(uint32_t(2 * seed + j));
        for (int step = 0; step < 40; ++step) {
          const size_t p = random() % 3;
          wrong[j] +=
              steps_of(jobs[j], *memories[j][p], p, 1) != reference(jobs[j][p]->ready.program, 1);
        }
        pool.leave(JobId(j));
      });
    }
    for (auto& t : threads) t.join();
    EXPECT_EQ(wrong, std::vector<int>(2, 0)) << "seed " << seed;
    EXPECT_EQ(pool.steps_of(0, jobs[0][0]->shape) + pool.steps_of(0, jobs[0][1]->shape) +
                  pool.steps_of(0, jobs[0][2]->shape),
              40);
  }
}

// A job that is busy elsewhere holds nobody up for longer than the other's patience.
TEST(SharedPool, AJobThatIsLateHoldsNobodyUp) {
  PooledJobs jobs;
  for (int j = 0; j < 2; ++j) jobs.push_back(std::make_unique<PooledJob>(hourglass(16, 800)));
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

// Whoever has waited once does not wait for it in every step.
TEST(SharedPool, AJobThatIsLateIsWaitedForOnce) {
  PooledJobs jobs;
  for (int j = 0; j < 2; ++j) jobs.push_back(std::make_unique<PooledJob>(hourglass(16, 800)));
  CorunSearch search(shapes_of(jobs));
  const auto way =
      search.within(search.least_bytes() + (search.most_bytes() - search.least_bytes()) / 8);
  ASSERT_EQ(way->kind, CorunWay::Kind::circle);
  for (const size_t late : {0, 1}) {
    const size_t goes_on = 1 - late;
    const auto pool = pool_of(jobs, *way);
    const auto memories = memories_of(jobs, *pool);
    steps_of(jobs, *memories[goes_on], goes_on, 12);
    EXPECT_LE(pool->stats(JobId(goes_on)).waits, 2) << "job " << goes_on;
    // It takes part again when it comes.
    std::thread other([&] { steps_of(jobs, *memories[late], late, 6); });
    steps_of(jobs, *memories[goes_on], goes_on, 6);
    other.join();
    EXPECT_EQ(pool->stats(JobId(late)).steps, 6);
  }
}

// Either job fails at any node, holding whatever it holds there: the other has its bits.
TEST(SharedPool, AJobThatFailsAtAnyNodeFreesWhatItHolds) {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    const PooledJobs jobs = two_jobs();
    CorunSearch search(shapes_of(jobs));
    const int64_t span = search.most_bytes() - search.least_bytes();
    const CorunWay way = round % 4 == 3 ? search.turns()
                         : round % 4 == 2
                             ? tickets(jobs, search.least_bytes() - search.own_bytes() + span / 3)
                             : *search.within(search.least_bytes() + span * (round % 9) / 8);
    const auto pool = pool_of(jobs, way);
    const auto memories = memories_of(jobs, *pool);
    const size_t fails = random() % 2, goes_on = 1 - fails;
    const NodeId nodes = jobs[fails]->ready.program.node_count();
    const NodeId last = NodeId(random() % uint32_t(nodes));
    const int steps_before = int(random() % 3);
    std::thread failing([&] {
      steps_of(jobs, *memories[fails], fails, steps_before);
      memories[fails]->begin_step();
      for (NodeId n = 0; n <= last; ++n) {
        memories[fails]->before_node(n, kComputeQueue);
        if (n < last) memories[fails]->after_node(n, kComputeQueue);
      }
      if (round % 2 == 0) memories[fails]->end_step();  // as the runner does
      pool->leave(JobId(fails));
    });
    EXPECT_EQ(steps_of(jobs, *memories[goes_on], goes_on, 8),
              reference(jobs[goes_on]->ready.program, 8))
        << round;
    pool->leave(JobId(goes_on));
    failing.join();
  }
}

// Nor does a turn that is over before its job can wake pass on for ever.
TEST(SharedPool, TurnsMayBeShorterThanAStep) {
  const PooledJobs jobs = two_jobs();
  const int64_t a = jobs[0]->height();
  SharedPool pool(2);
  const auto memories = memories_of(jobs, pool);
  pool.use({.way = turns(a), .jobs = {0, 1}, .bytes = a, .parts = {}, .slice_seconds = 1e-9});
  std::vector<Results> results(2);
  {
    std::vector<std::jthread> threads;
    for (size_t j = 0; j < 2; ++j) {
      threads.emplace_back([&, j] {
        results[j] = steps_of(jobs, *memories[j], j, 30);
        pool.leave(JobId(j));
      });
    }
  }
  for (size_t j = 0; j < 2; ++j) EXPECT_EQ(results[j], reference(jobs[j]->ready.program, 30));
}

// Turns of some time: many steps of one job, then of the other; who is late does not keep its turn.
TEST(SharedPool, TurnsMayLastLongerThanAStep) {
  const PooledJobs jobs = two_jobs();
  const int64_t a = jobs[0]->height();
  SharedPool pool(2);
  const auto memories = memories_of(jobs, pool);
  pool.use({.way = turns(a), .jobs = {0, 1}, .bytes = a, .parts = {}, .slice_seconds = 0.05});
  std::mutex mutex;
  std::vector<size_t> order;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (size_t j = 0; j < 2; ++j) {
    threads.emplace_back([&, j] {
      while (!stop) {
        memories[j]->begin_step();
        {
          const std::lock_guard lock(mutex);
          order.push_back(j);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        memories[j]->end_step();
      }
      pool.leave(JobId(j));
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  stop = true;
  for (auto& t : threads) t.join();
  size_t swaps = 0;
  for (size_t i = 1; i < order.size(); ++i) swaps += order[i] != order[i - 1];
  EXPECT_GE(swaps, 2u);
  EXPECT_GT(order.size(), 5 * swaps) << order.size() << " steps";

  SharedPool late(2);
  const auto of_late = memories_of(jobs, late);
  late.use({.way = turns(a), .jobs = {0, 1}, .bytes = a, .parts = {}, .slice_seconds = 0.02});
  of_late[0]->begin_step();
  of_late[0]->end_step();
  of_late[1]->begin_step();  // job 0 does not come back
  of_late[1]->end_step();
  EXPECT_GT(late.stats(1).waits, 0);
}

TEST(SharedPool, AJobThatDoesNotFitAloneIsRefused) {
  PooledJobs jobs;
  jobs.push_back(std::make_unique<PooledJob>(hourglass(10, 500)));
  const auto small = std::make_unique<SharedPool>(
      CorunWay{.kind = CorunWay::Kind::tickets, .pool_bytes = 0}, 1, jobs[0]->height() / 2);
  EXPECT_NE(message_of<BudgetError>([&] {
              small->add(0, jobs[0]->shape, jobs[0]->plan);
            }).find("job alone needs"),
            std::string::npos);
  // Nor may the pool become so small.
  SharedPool pool(1);
  pool.add(0, jobs[0]->shape, jobs[0]->plan, 100);
  const int64_t height = jobs[0]->height();
  pool.use({.way = turns(height), .jobs = {0}, .bytes = height});
  EXPECT_THROW(pool.use({.way = turns(height / 2), .jobs = {0}, .bytes = height / 2}), BudgetError);
  EXPECT_EQ(pool.bytes(), height);
  // Nor a job's own bytes larger than all programs were to need.
  pool.expect(0, 100);
  EXPECT_EQ(pool.add(0, jobs[0]->shape, jobs[0]->plan, 100), 1u);
  EXPECT_THROW(pool.add(0, jobs[0]->shape, jobs[0]->plan, 101), BudgetError);
}

}  // namespace
}  // namespace pal::test
