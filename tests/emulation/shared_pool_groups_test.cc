// Pairs with parts of one pool, and circles that hold several programs of a job, on the emulated
// GPU: the bits of alone, whatever its streams do first.
#include <gtest/gtest.h>

#include "memory/share/pairs_plan.h"
#include "tests/emulation/toy_jobs.h"

namespace pal::test {
namespace {

using emulation::Order;
constexpr Order kOrders[] = {Order::forward, Order::backward, Order::shuffled};

TEST_F(SharedGpuPool, PairsHaveAPartEachAndLeaveTheBits) {
  const std::vector<ToyKind> kinds{{.size = {.layers = 8, .batch = 32, .width = 24}},
                                   {.size = {.layers = 5, .batch = 48, .width = 24}},
                                   {.size = {.layers = 6, .batch = 32, .width = 16}},
                                   {.size = {.layers = 4, .batch = 48, .width = 16}}};
  constexpr int kSteps = 4;
  std::vector<Bytes> expected;
  for (const ToyKind& kind : kinds) expected.push_back(alone(kind, kSteps));
  std::set<CorunWay::Kind> ways;
  for (const Order order : kOrders) {
    emulation::settings().order = order;
    for (int i = 0; i <= 3; ++i) {
      ToyPool pool(kinds);
      CorunSearch joint(pool.pointers());
      const int64_t budget =
          joint.least_bytes() + (joint.most_bytes() - joint.least_bytes()) * (i + 1) / 4;
      const auto way = PairsSearch(pool.pointers()).within(budget);
      if (!way) continue;
      for (const CorunWay& group : way->groups) ways.insert(group.kind);
      pool.use(*way);
      pool.run({kSteps, kSteps, kSteps, kSteps});
      for (size_t j = 0; j < kinds.size(); ++j) {
        EXPECT_EQ(first_other(expected[j], pool.jobs[j]->bytes()), "") << i << ", job " << j;
      }
    }
  }
  emulation::settings() = {};
  EXPECT_TRUE(ways.contains(CorunWay::Kind::circle));
  EXPECT_GT(ways.size(), 1u);
}

TEST_F(SharedGpuPool, ProgramsOfACircleLeaveTheBits) {
  constexpr int kSteps = 7;
  int on_circle = 0;
  for (const bool graphs : {false, true}) {
    ToyKind a{.size = {.layers = 8, .batch = 32, .width = 24}, .graphs = graphs},
        b{.size = {.layers = 5, .batch = 48, .width = 24}, .graphs = graphs};
    a.buckets = b.buckets = true;
    const Bytes first = alone(a, kSteps), second = alone(b, kSteps + 2);
    for (const Order order : kOrders) {
      emulation::settings().order = order;
      ToyPool pool({a, b});
      const CorunWay way = pool.way_with_halves(1.5);
      for (const JobOnCircle& job : way.circle.jobs) on_circle += int(job.others.size());
      pool.use(way);
      pool.run({kSteps, kSteps + 2});
      EXPECT_EQ(first_other(first, pool.jobs[0]->bytes()), "");
      EXPECT_EQ(first_other(second, pool.jobs[1]->bytes()), "");
      EXPECT_EQ(pool.pool->steps_of(0, pool.halves[0]), kSteps / 2);
    }
    emulation::settings() = {};
  }
  EXPECT_GE(on_circle, 2 * 3) << "one of the two in each run: a half that takes longer is left out";
}

// Without one of the waits that a circle of several programs asks of the device, a late stream
// meets bytes that are still used: somewhere the bits change.
TEST_F(SharedGpuPool, AWaitThatIsDroppedAmongProgramsShows) {
  if (emulation::real()) GTEST_SKIP() << "waits cannot be dropped on hardware";
  ToyKind a{.size = {.layers = 8, .batch = 32, .width = 24}, .graphs = false, .poison = true},
      b{.size = {.layers = 5, .batch = 48, .width = 24}, .graphs = false, .poison = true};
  a.buckets = b.buckets = true;
  a.late_updates = b.late_updates = false;  // with them bytes are reused later than some waits
  const DroppedWaits dropped =
      drop_waits(a, b, [](const ToyPool& pool) { return pool.way_with_halves(1.25); });
  EXPECT_GE(dropped.of_pool, 3);
  EXPECT_GE(dropped.shown, dropped.of_pool);
}

}  // namespace
}  // namespace pal::test
