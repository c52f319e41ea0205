// A shared pool whose use changes while jobs run: other ways, fewer bytes, a job that has left.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/error.h"
#include "tests/memory/run/pool_jobs.h"

namespace pal::test {
namespace {

// While jobs run: other ways, other sizes, other orders, in between also what only turns fit.
TEST(SharedPool, AnotherUseWhileJobsRunLeavesTheBits) {
  const PooledJobs jobs = two_jobs();
  CorunSearch search(shapes_of(jobs));
  SharedPool pool(2);
  const auto memories = memories_of(jobs, pool);
  const auto use_for = [&](int64_t budget) {
    const CorunWay way = *search.within(budget);
    PoolUse use{.way = way, .jobs = {0, 1}, .bytes = way.pool_bytes};
    for (const auto& job : jobs) use.parts.push_back(job->height());
    return use;
  };
  pool.use(use_for(search.most_bytes()));
  std::vector<Results> results(2);
  std::atomic<int> running{2};
  std::vector<std::thread> threads;
  for (size_t j = 0; j < 2; ++j) {
    threads.emplace_back([&, j] {
      results[j] = steps_of(jobs, *memories[j], j, 400);
      pool.leave(JobId(j)), --running;
    });
  }
  int changes = 0;
  for (; running == 2; ++changes) {
    const int64_t span = search.most_bytes() - search.least_bytes();
    pool.use(use_for(search.least_bytes() + span * (changes * 7 % 11) / 10));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (auto& t : threads) t.join();
  EXPECT_GT(changes, 3);
  for (size_t j = 0; j < 2; ++j) EXPECT_EQ(results[j], reference(jobs[j]->ready.program, 400));
}

TEST(SharedPool, ADropReturnsItsBytesBeforeTheNextStep) {
  PooledJobs jobs;
  for (int j = 0; j < 2; ++j) jobs.push_back(std::make_unique<PooledJob>(hourglass(20, 20000)));
  SharedPool pool(2);
  const auto memories = memories_of(jobs, pool);
  const int64_t part = jobs[0]->height();
  pool.use({.way = {.kind = CorunWay::Kind::beside},
            .jobs = {0, 1},
            .bytes = 2 * part,
            .parts = {part, part}});
  for (size_t j = 0; j < 2; ++j) steps_of(jobs, *memories[j], j, 1);
  EXPECT_GT(pool.resident(), part + part / 2);
  pool.use({.way = turns(part), .jobs = {0, 1}, .bytes = part});
  EXPECT_LE(pool.resident(), part + 4096);
  EXPECT_EQ(pool.bytes(), part);
  for (size_t j = 0; j < 2; ++j) {
    EXPECT_EQ(steps_of(jobs, *memories[j], j, 2), reference(jobs[j]->ready.program, 2));
  }
  EXPECT_LE(pool.resident(), part + 4096);
}

TEST(SharedPool, ADropWaitsForTheStepsThatRun) {
  const PooledJobs jobs = two_jobs();
  const int64_t a = jobs[0]->height(), b = jobs[1]->height();
  SharedPool pool(2);
  const auto memories = memories_of(jobs, pool);
  pool.use(
      {.way = {.kind = CorunWay::Kind::beside}, .jobs = {0, 1}, .bytes = a + b, .parts = {a, b}});
  memories[0]->begin_step();
  pool.use({.way = turns(a), .jobs = {0, 1}, .bytes = a});
  EXPECT_EQ(pool.bytes(), a + b);
  std::atomic<bool> began{false};
  std::thread other([&] {
    memories[1]->begin_step();
    began = true;
    memories[1]->end_step();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(began);
  EXPECT_EQ(pool.bytes(), a + b);
  memories[0]->end_step();
  other.join();
  EXPECT_EQ(pool.bytes(), a);
}

// A program that is taller than its job's part has the whole pool, and everybody waits meanwhile.
TEST(SharedPool, WhatDoesNotFitBesideTheOtherRunsAlone) {
  const PooledJobs jobs = two_jobs();
  const PooledJob tall(hourglass(20, 3500));
  Arena arena;
  const int64_t a = jobs[0]->height(), b = jobs[1]->height();
  ASSERT_GT(tall.height(), a);
  ASSERT_LE(tall.height(), a + b);
  SharedPool pool(2);
  const auto memories = memories_of(jobs, pool);
  SharedPlan of_tall(tall.ready.storages, tall.plan, tall.shape, arena, pool, 0);
  pool.use(
      {.way = {.kind = CorunWay::Kind::beside}, .jobs = {0, 1}, .bytes = a + b, .parts = {a, b}});
  EXPECT_EQ(pool.needs(0).height, tall.height());
  // The other is inside a step: it waits. It is inside: the other waits.
  memories[1]->begin_step();
  std::atomic<int> inside{0}, met{0};
  std::thread alone([&] {
    of_tall.begin_step();
    ++inside;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    met += inside > 1;
    --inside;
    of_tall.end_step();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(inside, 0);
  memories[1]->end_step();
  for (int i = 0; i < 20; ++i) {
    memories[1]->begin_step();
    ++inside;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    --inside;
    memories[1]->end_step();
  }
  alone.join();
  EXPECT_EQ(met, 0);

  // And the bits.
  std::vector<Results> results(2), of_other(20);
  std::thread first([&] {
    for (Results& result : of_other) {
      result = run_with(tall.ready, of_tall, 2, {.poison = true});
      results[0] = steps_of(jobs, *memories[0], 0, 3);
    }
    pool.leave(0);
  });
  results[1] = steps_of(jobs, *memories[1], 1, 300);
  pool.leave(1);
  first.join();
  EXPECT_EQ(results[0], reference(jobs[0]->ready.program, 3));
  EXPECT_EQ(results[1], reference(jobs[1]->ready.program, 300));
  for (const Results& result : of_other) EXPECT_EQ(result, reference(tall.ready.program, 2));
}

TEST(SharedPool, WhoeverIsLeftHasTheWholePool) {
  const PooledJobs jobs = two_jobs();
  const int64_t a = jobs[0]->height();
  SharedPool pool(2);
  const auto memories = memories_of(jobs, pool);
  pool.use({.way = turns(a), .jobs = {0, 1}, .bytes = a});
  memories[0]->begin_step();  // and fails in it
  pool.leave(0);
  pool.use({.way = turns(a), .jobs = {1}, .bytes = a});
  EXPECT_EQ(steps_of(jobs, *memories[1], 1, 3), reference(jobs[1]->ready.program, 3));
  EXPECT_THROW(memories[0]->begin_step(), ProgramError);
}

}  // namespace
}  // namespace pal::test
