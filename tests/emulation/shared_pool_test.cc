// Jobs that share a pool of a GPU's memory, emulated or (tests/gpu) real: each in a thread with
// queues of its own, the bits of each alone in every order of the streams, and a wait of a queue
// that is dropped shows.
#include "memory/run/shared_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/emulation/toy_jobs.h"

namespace pal::test {
namespace {

using emulation::Order;

TEST_F(SharedGpuPool, BitsInEveryOrderOfTheStreams) {
  for (const bool graphs : {false, true}) {
    ToyKind a = kSmall, b = kLarge;
    a.graphs = b.graphs = graphs;
    const Bytes first = alone(a, 6), second = alone(b, 5);
    for (const CorunWay::Kind kind : kWays) {
      for (const Order order : {Order::forward, Order::backward, Order::shuffled}) {
        emulation::settings().order = order;
        ToyPool pool({a, b});
        pool.use(pool.way(kind));
        pool.run({6, 5});
        EXPECT_EQ(first_other(first, pool.jobs[0]->bytes()), "") << to_string(kind);
        EXPECT_EQ(first_other(second, pool.jobs[1]->bytes()), "") << to_string(kind);
      }
    }
    emulation::settings() = {};
  }
}

// The job that goes first has streams of the highest priority, from its next step on, and the bits
// of alone; one that no longer goes first has others again.
TEST_F(SharedGpuPool, TheJobThatGoesFirst) {
  for (const bool graphs : {false, true}) {
    ToyKind a = kSmall, b = kLarge;
    a.graphs = b.graphs = graphs;
    const Bytes first = alone(a, 6), second = alone(b, 6);
    for (const Order order : {Order::forward, Order::backward, Order::shuffled}) {
      emulation::settings().order = order;
      ToyPool pool({a, b});
      CorunWay way = pool.way(CorunWay::Kind::tickets);
      int64_t preferred[3];
      for (int i = 0; i < 3; ++i) {
        way.first.job = i == 1 ? 1 : -1;
        pool.use(way);
        const int64_t before = emulation::preferred_work();
        pool.run({2, 2}, 2 * i);
        preferred[i] = emulation::preferred_work() - before;
      }
      EXPECT_EQ(preferred[0], 0);
      EXPECT_TRUE(preferred[1] > (graphs ? 2 : 20) || emulation::real());
      EXPECT_LE(preferred[2], 1) << "but for inputs that were copied before the step began";
      EXPECT_EQ(first_other(first, pool.jobs[0]->bytes()), "");
      EXPECT_EQ(first_other(second, pool.jobs[1]->bytes()), "");
    }
    emulation::settings() = {};
  }
}

// Light nodes are queued on streams of the highest priority and the others are not, in recorded
// graphs too; each waits for the one before it, and the bits are those of alone.
TEST_F(SharedGpuPool, LightNodesGoFirst) {
  const auto check = [&](const ToyKind& a, const ToyKind& b) {
    const Bytes first = alone(a, 10), second = alone(b, 10);
    for (const Order order : {Order::forward, Order::backward, Order::shuffled}) {
      emulation::settings().order = order;
      ToyPool pool({a, b});
      CorunWay way = pool.way(CorunWay::Kind::tickets);
      int64_t light = 0, heavy = 0;
      for (const StepShape& shape : pool.shapes) {
        for (const NodeDemand& node : shape.nodes) {
          light += node.units > 0 && node.units < 1, heavy += node.units >= 1;
        }
      }
      EXPECT_GT(light, 4);
      EXPECT_GT(heavy, 4);
      const Preference uses[] = {{}, {.light = true}, {.job = 0}, {.job = 1}, {}};
      int64_t preferred[5];
      for (int i = 0; i < 5; ++i) {
        way.first = uses[i];
        pool.use(way);
        const int64_t before = emulation::preferred_work();
        pool.run({2, 2}, 2 * i);
        preferred[i] = emulation::preferred_work() - before;
      }
      if (!emulation::real()) {
        EXPECT_EQ(preferred[0], 0);
        EXPECT_GE(preferred[1], 2 * light);
        // Of all that both queue, nothing of what is heavy.
        EXPECT_LE(preferred[1], preferred[2] + preferred[3] - 2 * heavy);
        EXPECT_LE(preferred[4], 2) << "but for inputs that were copied before the step began";
      }
      EXPECT_EQ(first_other(first, pool.jobs[0]->bytes()), "");
      EXPECT_EQ(first_other(second, pool.jobs[1]->bytes()), "");
    }
    emulation::settings() = {};
  };
  ToyKind a = kSmall, b = kLarge;
  a.units = b.units = 2;
  for (const bool graphs : {false, true}) {
    a.graphs = b.graphs = graphs;
    check(a, b);
  }
  // Priced by the device whose times the pool's way was chosen by; and on two queues.
  a.priced_by_pool = b.priced_by_pool = true;
  check(a, b);
  a.pair = true;
  check(a, b);
}

TEST_F(SharedGpuPool, ThreeJobsUnderTickets) {
  const ToyKind kinds[] = {kSmall, kLarge, {.size = {.layers = 3, .batch = 32, .width = 16}}};
  std::vector<Bytes> expected;
  for (const ToyKind& kind : kinds) expected.push_back(alone(kind, 5));
  for (const Order order : {Order::forward, Order::backward, Order::shuffled}) {
    emulation::settings().order = order;
    ToyPool pool({kinds[0], kinds[1], kinds[2]});
    pool.use(pool.way(CorunWay::Kind::tickets));
    pool.run({5, 5, 5});
    for (size_t j = 0; j < 3; ++j) {
      EXPECT_EQ(first_other(expected[j], pool.jobs[j]->bytes()), "") << "job " << j;
    }
  }
}

// Tickets are for regions, a hundredth of the pool each: where storages of two jobs share a region
// and no byte, a wait guards nothing. Of five layers there is such a one, of six there is none more
// than waits for inputs that show.
class DroppedWait : public SharedGpuPool, public testing::WithParamInterface<CorunWay::Kind> {};
TEST_P(DroppedWait, Shows) {
  if (emulation::real()) GTEST_SKIP() << "a real device may be in time by luck";
  const DroppedWaits dropped =
      drop_waits({.size = {.layers = 6, .batch = 16, .width = 24}, .poison = true},
                 {.size = {.layers = 8, .batch = 24, .width = 24}, .poison = true},
                 [](const ToyPool& pool) { return pool.way(GetParam()); });
  EXPECT_GE(dropped.of_pool, 3);
  EXPECT_GE(dropped.shown, dropped.of_pool);
}
INSTANTIATE_TEST_SUITE_P(Ways, DroppedWait,
                         testing::Values(CorunWay::Kind::tickets, CorunWay::Kind::circle),
                         [](const auto& way) { return std::string(to_string(way.param)); });

// From one way to another while jobs run, each with its own bytes of the pool.
TEST_F(SharedGpuPool, AnotherUseWhileJobsRunLeavesTheBits) {
  const Bytes first = alone(kSmall, 24), second = alone(kLarge, 24);
  for (const Order order : {Order::backward, Order::shuffled}) {
    emulation::settings().order = order;
    ToyPool pool({kSmall, kLarge});
    std::vector<CorunWay> ways;
    for (const CorunWay::Kind kind : kWays) ways.push_back(pool.way(kind));
    pool.use(ways[0]);
    std::atomic<bool> over{false};
    int64_t changes = 0;
    std::thread changer([&] {
      for (; !over; ++changes) {
        pool.use(ways[size_t(changes * 7 + 1) % ways.size()]);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    });
    pool.run({24, 24});
    over = true;
    changer.join();
    EXPECT_GT(changes, 3);
    EXPECT_EQ(first_other(first, pool.jobs[0]->bytes()), "");
    EXPECT_EQ(first_other(second, pool.jobs[1]->bytes()), "");
  }
}

TEST_F(SharedGpuPool, AUseHasItsBytesAndNoMore) {
  ToyPool pool({kSmall, kLarge});
  const CorunWay turns = pool.way(CorunWay::Kind::turns), beside = pool.way(CorunWay::Kind::beside);
  ASSERT_GT(beside.pool_bytes, turns.pool_bytes);
  const auto free = [&] { return pool.jobs[0]->set().device().accelerator->free_bytes(); };
  pool.use(turns);
  const int64_t before = free();
  pool.use(beside);
  EXPECT_EQ(pool.pool->bytes(), beside.pool_bytes);
  pool.run({2, 2});
  pool.use(turns);
  EXPECT_EQ(pool.pool->bytes(), turns.pool_bytes);
  if (!emulation::real()) {
    EXPECT_EQ(free(), before);
  }
  pool.run({2, 2}, 2);
  EXPECT_EQ(first_other(alone(kSmall, 4), pool.jobs[0]->bytes()), "");
}

// Bytes that are not to be had: the error names them, and the pool is as it was.
TEST_F(SharedGpuPool, APoolThatCannotGrowStaysAsItIs) {
  if (emulation::real()) GTEST_SKIP() << "nothing fails when it is told to";
  ToyPool pool({kSmall, kLarge});
  const CorunWay turns = pool.way(CorunWay::Kind::turns), beside = pool.way(CorunWay::Kind::beside);
  pool.use(turns);
  pool.run({3, 3});
  emulation::settings().good_allocations = 0;  // the next one fails, not the one after it
  EXPECT_THROW(pool.use(beside), BudgetError);
  EXPECT_EQ(pool.pool->bytes(), turns.pool_bytes);
  pool.run({3, 3}, 3);
  EXPECT_EQ(first_other(alone(kSmall, 6), pool.jobs[0]->bytes()), "");
  EXPECT_EQ(first_other(alone(kLarge, 6), pool.jobs[1]->bytes()), "");
}

// Nothing is allocated, and nobody waits for the whole device, once all has run and is recorded.
TEST_F(SharedGpuPool, StepsAreReplayedInPiecesAndAllocateNothing) {
  if (emulation::real()) GTEST_SKIP() << "nobody counts there";
  ToyPool pool({kSmall, kLarge});
  pool.use(pool.way(CorunWay::Kind::circle));
  pool.run({4, 4});
  emulation::settings().good_allocations = emulation::settings().good_pins = 0;
  const int64_t replays = emulation::graphs_run(), kernels = emulation::kernels_run();
  pool.run({4, 4}, 4);
  EXPECT_EQ(emulation::settings().good_allocations, 0) << "of the device";
  EXPECT_EQ(emulation::settings().good_pins, 0) << "of pinned memory";
  pool.jobs[0]->set().device().accelerator->synchronize();
  EXPECT_GE(emulation::graphs_run() - replays, 8 * 2) << "pieces";
  EXPECT_GT(emulation::kernels_run(), kernels);
}

}  // namespace
}  // namespace pal::test
