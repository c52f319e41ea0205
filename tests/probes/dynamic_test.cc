// Probe 9: the same step under a static plan, and under a memory that decides while it runs, with
// half the bytes. What was evicted is made again or brought back, so all results have the same
// bits.
#include "memory/run/dynamic.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/probes/probe.h"

namespace pal::test {
namespace {

Program step() { return perceptron(12, 256, 16, true); }

struct Outcome {
  std::vector<std::vector<std::byte>> bytes;  // loss, gradients, updated weights
  DynamicStats stats;
};

void collect(Running& running, Outcome& out) {
  const Program& p = running.program();
  for (auto& o : p.outputs) out.bytes.push_back(running.bytes(o.name));
  for (auto& slot : p.state) out.bytes.push_back(running.bytes(slot.name));
}

Outcome with_plan(int steps, const StorageOptions& options, int64_t* peak) {
  Planned planned(step(), 1, options);
  *peak = planned.peak(Space::device);
  Outcome out;
  feed_perceptron(planned.running(), 1);
  for (int i = 0; i < steps; ++i) planned.run();
  collect(planned.running(), out);
  return out;
}

// A memory whose replays are lost: evicted values come back as whatever lies there.
class Forgetful final : public Memory, Replayer {
 public:
  explicit Forgetful(Memory& memory) : memory_(memory) {}
  void begin_step(Replayer&) override { memory_.begin_step(*this); }
  void end_step() override { memory_.end_step(); }
  std::byte* acquire(StorageId s, QueueId q) override { return memory_.acquire(s, q); }
  void release(StorageId s, QueueId q) override { memory_.release(s, q); }
  void after_node(NodeId n, QueueId q) override { memory_.after_node(n, q); }
  std::byte* outside_step(StorageId s) override { return memory_.outside_step(s); }
  int64_t capacity() const override { return memory_.capacity(); }
  void replay(NodeId) override {}

 private:
  Memory& memory_;
};

Outcome with_budget(int64_t budget, int steps, const StorageOptions& options, bool forget = false) {
  const Step planned(step(), 1, options);
  const StateLayout layout(planned.program);
  Arena arena;
  Dynamic dynamic(planned.program, planned.storages, layout, arena,
                  {.budget = budget, .offload = options.inplace});
  Forgetful forgetful(dynamic);
  Running running(planned, forget ? static_cast<Memory&>(forgetful) : dynamic);
  Outcome out;
  feed_perceptron(running, 1);
  for (int i = 0; i < steps; ++i) running.run();
  collect(running, out);
  out.stats = dynamic.stats();
  return out;
}

class DynamicMemory : public testing::TestWithParam<bool> {
 protected:
  StorageOptions options() const { return {.inplace = GetParam()}; }
};

TEST_P(DynamicMemory, SameBitsWithHalfTheMemory) {
  int64_t peak = 0;
  const Outcome plan = with_plan(2, options(), &peak);
  const Outcome half = with_budget(peak / 2, 2, options());
  EXPECT_EQ(half.bytes, plan.bytes);
  EXPECT_LE(half.stats.peak, peak / 2);
  EXPECT_GT(half.stats.evictions, 0);
  // In place a value is written over by the next, so nothing can be run again: it is copied out.
  EXPECT_GT(GetParam() ? half.stats.reloads : half.stats.replays, 0);
  const Outcome ample = with_budget(2 * peak, 2, options());
  EXPECT_EQ(ample.bytes, plan.bytes);
  EXPECT_EQ(ample.stats.evictions, 0);
}
INSTANTIATE_TEST_SUITE_P(Updates, DynamicMemory, testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "InPlace" : "Copied");
});

TEST(DynamicMemory, ReplaysThatAreLostAreNoticed) {
  int64_t peak = 0;
  const Outcome plan = with_plan(1, {.inplace = false}, &peak);
  const Outcome lost = with_budget(peak / 2, 1, {.inplace = false}, true);
  ASSERT_GT(lost.stats.replays, 0);
  EXPECT_NE(lost.bytes, plan.bytes);
}

TEST(DynamicMemory, TooSmallABudgetIsRefused) {
  const Step planned(step());
  const StateLayout layout(planned.program);
  const int64_t least = Dynamic::smallest_budget(planned.program, planned.storages, layout);
  auto make = [&](int64_t budget) {
    Arena arena;
    Dynamic(planned.program, planned.storages, layout, arena, {.budget = budget});
  };
  EXPECT_NO_THROW(make(least));
  EXPECT_THROW(make(least - 64), BudgetError);
}

}  // namespace
}  // namespace pal::test
