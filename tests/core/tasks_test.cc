// Work on several threads.
#include "core/tasks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/resource_limit.h"

namespace pal::test {
namespace {

TEST(RunTasks, EachTaskRunsOnce) {
  for (const int workers : {1, 2, 7, 100}) {
    std::vector<std::atomic<int>> runs(30);
    run_tasks(workers, runs.size(), [&](int worker, size_t task) {
      EXPECT_GE(worker, 0);
      EXPECT_LT(worker, workers);
      ++runs[task];
    });
    for (const auto& of_task : runs) EXPECT_EQ(of_task, 1) << workers << " workers";
  }
  run_tasks(3, 0, [](int, size_t) { FAIL() << "there is none"; });
}

// Two tasks that wait for each other end only where two threads have them.
TEST(RunTasks, WorkersRunAtTheSameTime) {
  std::atomic<int> here{0};
  run_tasks(2, 2, [&](int, size_t) {
    ++here;
    while (here < 2) std::this_thread::yield();
  });
  EXPECT_EQ(here, 2);
}

// Whoever has something of its own for each worker counts on it.
TEST(RunTasks, NoTwoThreadsAreTheSameWorker) {
  for (const int workers : {1, 3}) {
    std::vector<std::atomic<int>> busy(static_cast<size_t>(workers));
    run_tasks(workers, 20, [&](int worker, size_t) {
      EXPECT_EQ(++busy[size_t(worker)], 1);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      --busy[size_t(worker)];
    });
  }
}

TEST(RunTasks, OneWorkerIsTheCaller) {
  const std::thread::id caller = std::this_thread::get_id();
  std::vector<size_t> order;
  run_tasks(1, 4, [&](int, size_t task) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    order.push_back(task);
  });
  EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 3}));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// A process that may have no more addresses has no room for a thread's stack.
TEST(RunTasks, FewerThreadsDoTheWorkWhereTheMachineRefusesMore) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // stacks of threads before are kept
  const auto run = [] {
    std::vector<int> runs(20, 0);
    const ResourceLimit limit(RLIMIT_AS, addresses_in_use() + (int64_t(1) << 20));
    run_tasks(4, runs.size(), [&](int, size_t task) { ++runs[task]; });
    exit(runs == std::vector<int>(20, 1) ? 0 : 1);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}
#endif

TEST(RunTasks, TheFirstTasksErrorGoesOnWhenAllHaveEnded) {
  for (const int workers : {1, 3}) {
    std::atomic<int> ended{0};
    try {
      run_tasks(workers, 20, [&](int, size_t task) {
        ++ended;
        if (task == 5 || task == 11) throw std::runtime_error("task " + std::to_string(task));
      });
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(std::string(error.what()), "task 5");
    }
    EXPECT_EQ(ended, 20);
  }
}

}  // namespace
}  // namespace pal::test
