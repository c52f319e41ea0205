// Two queues whose times can be worked out by hand.
#include "memory/price/side_by_side.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "core/builder.h"
#include "core/error.h"
#include "memory/price/node_times.h"
#include "ops/elementwise/activations.h"

namespace pal::test {
namespace {

// `first` nodes on the compute queue, then `second` on the other.
Program two_chains(int first, int second) {
  Builder b;
  Val x = b.input("x", {{8}}), y = b.input("y", {{8}});
  for (int i = 0; i < first; ++i) x = tanh(x);
  for (int i = 0; i < second; ++i) y = tanh(y);
  b.output("x", x), b.output("y", y);
  Program p = b.take();
  for (NodeId n = first; n < p.node_count(); ++n) p.node(n).queue = 1;
  return p;
}
ByNode<NodeDemand> all(const Program& p, const NodeDemand& demand) {
  ByNode<NodeDemand> out;
  for (size_t i = 0; i < p.nodes.size(); ++i) out.push_back(demand);
  return out;
}
constexpr NodeId nobody{kNone};

TEST(SideBySide, HalfOfTheUnitsEachTakesHalfTheTime) {
  const Program p = two_chains(3, 3);
  const auto half = all(p, {.work_ms = 1, .units = 0.5});
  EXPECT_NEAR(run_side_by_side(p, half).ms, 3, 1e-9);
  EXPECT_NEAR(one_by_one_ms(half), 6, 1e-9);
  EXPECT_NEAR(least_ms(p, half), 3, 1e-9);
}

TEST(SideBySide, AllOfAResourceEachTakesAsLongAsOneByOne) {
  const Program p = two_chains(3, 3);
  for (const NodeDemand& d :
       {NodeDemand{.work_ms = 1, .units = 1}, NodeDemand{.work_ms = 1, .memory = 1},
        NodeDemand{.work_ms = 1, .flops = 1}}) {
    EXPECT_NEAR(run_side_by_side(p, all(p, d)).ms, 6, 1e-9);
    EXPECT_NEAR(least_ms(p, all(p, d)), 6, 1e-9);
  }
}

// While one launches the other works: 1 + 2 + 2 + ... with each launch hidden but the first.
TEST(SideBySide, LaunchesAreHidden) {
  const Program p = two_chains(1, 1);
  ByNode<NodeDemand> d = all(p, {.launch_ms = 1, .work_ms = 2, .units = 1});
  EXPECT_NEAR(run_side_by_side(p, d).ms, 5, 1e-9);  // both launch, then share 4 ms of work
  d[0].launch_ms = 0;
  // Two works alone for 1, then both share: 1 left of 2 and 2 of the other.
  EXPECT_NEAR(run_side_by_side(p, d).ms, 4, 1e-9);
  EXPECT_NEAR(least_ms(p, d), 4, 1e-9);
}

TEST(SideBySide, WaitsDelayAndAreSeen) {
  Program p = two_chains(3, 2);
  p.node(3).waits = {1};
  const SideBySide run = run_side_by_side(p, all(p, {.work_ms = 1, .units = 0.1}));
  EXPECT_NEAR(run.ms, 4, 1e-9);
  EXPECT_EQ(run.order, (std::vector<NodeId>{0, 1, 2, 3, 4}));
  EXPECT_EQ(run.seen, (ByNode<NodeId>{nobody, nobody, nobody, 1, 2}));
}

TEST(SideBySide, WhoWaitsForEachOtherIsAnError) {
  Program p = two_chains(1, 1);
  p.node(0).waits = {1}, p.node(1).waits = {0};
  EXPECT_THROW(run_side_by_side(p, all(p, {.work_ms = 1})), ProgramError);
}

// What was measured of a node begins with its launch, which is hidden beside the other's work; all
// that is longer is work, for which two nodes that use the whole card share it.
TEST(SideBySide, OfAMeasuredTimeTheLaunchIsHiddenAndTheRestIsShared) {
  DeviceProfile card{
      .f32 = 1e12, .vector = 1e12, .memory = 1e9, .launch = 1e-6, .units = 2, .piece = 4};
  const Program p = two_chains(1, 1);
  const double launch = 1e3 * card.launch;
  for (const double measured : {10 * launch, launch, launch / 4}) {
    NodeTimes times;
    for (NodeId n : p.nodes.ids()) times.ms[node_key(p, n)] = measured;
    card.times = std::make_shared<NodeTimes>(std::move(times));
    const auto demands = demands_of(p, card);
    for (const NodeDemand& d : demands) EXPECT_GE(d.work_ms, 0);
    EXPECT_NEAR(one_by_one_ms(demands), 2 * measured, 1e-9);
    const double hidden = std::min(launch, measured);
    EXPECT_NEAR(run_side_by_side(p, demands).ms, 2 * measured - hidden, 1e-9) << measured;
  }
}

// A prediction has queues of compute side by side, and says when each node ends.
TEST(SideBySide, PredictionsShareTheDevice) {
  const DeviceProfile card{
      .f32 = 1e12, .vector = 1e12, .memory = 1e9, .launch = 1e-6, .units = 2, .piece = 4};
  const Program p = two_chains(3, 2);
  Program one = p;
  for (Node& node : one.nodes) node.queue = kComputeQueue;
  const SideBySide run = run_side_by_side(p, demands_of(p, card));
  const Prediction beside = predict(p, card), behind = predict(one, card);
  EXPECT_EQ(beside.step_ms, run.ms);
  EXPECT_EQ(beside.end_ms, run.end_ms);
  EXPECT_EQ(beside.end_ms[2], beside.step_ms);
  EXPECT_EQ(beside.node_ms, behind.node_ms);
  EXPECT_LT(beside.step_ms, behind.step_ms);
  EXPECT_TRUE(computes_side_by_side(p));
  EXPECT_FALSE(computes_side_by_side(one));
  Program copies = p;  // on a queue of their own
  for (NodeId n = 3; n < p.node_count(); ++n) copies.node(n).phase = Phase::offload;
  EXPECT_FALSE(computes_side_by_side(copies));
}

}  // namespace
}  // namespace pal::test
