// A job that fails somewhere in a step on a GPU, emulated, while another shares its pool: what the
// device still has to do for it is done before its bytes are another's. A few nodes by chance;
// PAL_TEST_POOL_FAULTS=N: N of them.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "tests/emulation/toy_jobs.h"

namespace pal::test {
namespace {

using emulation::Order;

constexpr int kSteps = 8;           // of the job that goes on
constexpr int kStepsBefore = 2;     // of them, before the other fails
constexpr int kStepsMeanwhile = 3;  // of them, while it has failed and not left

// Launches and replays of some steps of a job alone.
int64_t launches_of(const ToyKind& kind, int steps) {
  ToyJob job(kind);
  constexpr int64_t kMany = 1 << 30;
  emulation::good_launches = kMany;
  for (int i = 0; i < steps; ++i) job.step(i);
  return kMany - std::exchange(emulation::good_launches, -1);
}

bool wait_for(const std::atomic<bool>& happened) {
  for (int i = 0; i < 20000 && !happened; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return happened;
}

// One job fails at its launch number `good`, and leaves when the other has gone on for some steps.
// What is left of that one, "" for the bits that it leaves alone.
std::string run_with_failure(ToyPool& pool, size_t fails, int64_t good, bool frees_first,
                             const Bytes& expected) {
  std::atomic<bool> failed{false}, went_on{false};
  std::jthread failing([&] {
    emulation::good_launches = good;
    for (int i = 0; !failed; ++i) {
      try {
        pool.jobs[fails]->step(i);
      } catch (const std::exception&) {
        failed = true;
      }
    }
    emulation::good_launches = -1;
    EXPECT_TRUE(wait_for(went_on)) << "the other waits for a job that has failed";
    if (frees_first) pool.jobs[fails].reset();
    pool.pool->leave(JobId(fails));
  });
  ToyJob& other = *pool.jobs[1 - fails];
  for (int i = 0; i < kSteps; ++i) {
    if (i == kStepsBefore) {
      EXPECT_TRUE(wait_for(failed)) << "it waits for one that is between steps";
    }
    if (i == kStepsBefore + kStepsMeanwhile) went_on = true;
    other.step(i);
  }
  failing.join();
  return first_other(expected, other.bytes());
}

// What is recorded on the compute queue behind a step that failed, comes behind all of it.
TEST_F(SharedGpuPool, AStepThatFailsOnTwoQueuesEndsBehindBoth) {
  if (emulation::real()) GTEST_SKIP() << "nothing fails when it is told to";
  const ToyKind kind{.size = kSmall.size, .graphs = false, .poison = false, .pair = true};
  const int64_t launches = launches_of(kind, 1);
  for (const Order order : {Order::forward, Order::backward}) {
    emulation::settings().order = order;
    for (int64_t good = 0; good < launches; good += 5) {
      ToyJob job(kind);
      emulation::good_launches = good;
      EXPECT_THROW(job.step(0), std::exception);
      emulation::good_launches = -1;
      Accelerator& queues = *job.set().device().accelerator;
      const Accelerator::Event end = queues.make_event();
      queues.record(end, kComputeQueue);
      queues.wait(end);
      EXPECT_EQ(emulation::pending_work(), 0) << "launch " << good;
    }
  }
}

TEST_F(SharedGpuPool, AJobThatFailsAtAnyNodeGivesOnlyFreeBytesOn) {
  if (emulation::real()) GTEST_SKIP() << "nothing fails when it is told to";
  const char* asked = std::getenv("PAL_TEST_POOL_FAULTS");
  const int rounds = asked ? std::atoi(asked) : 8;
  constexpr Order kOrders[] = {Order::forward, Order::backward, Order::shuffled, Order::shuffled};
  std::mt19937 random(11);
  for (int round = 0; round < rounds; ++round) {
    emulation::settings() = {};
    ToyKind kinds[] = {kSmall, kLarge};
    const size_t fails = random() % 2;
    // Recorded and replayed, or not, or on two queues.
    for (ToyKind& kind : kinds) kind.graphs = random() % 2 == 0, kind.poison = !kind.graphs;
    kinds[fails].pair = random() % 2 == 0;
    const Bytes expected = alone(kinds[1 - fails], kSteps);
    const int64_t launches = launches_of(kinds[fails], 4);
    const CorunWay::Kind kind = kWays[round % 4];
    emulation::settings().order = kOrders[(round + round / 4) % 4];
    ToyPool pool({kinds[0], kinds[1]});
    pool.use(pool.way(kind));
    const auto good = int64_t(random() % uint64_t(launches));
    const std::string other = run_with_failure(pool, fails, good, round % 2 == 0, expected);
    EXPECT_EQ(other, "") << "round " << round << ", " << to_string(kind) << ", launch " << good
                         << (kinds[fails].pair ? " of a pair" : "");
  }
}

}  // namespace
}  // namespace pal::test
