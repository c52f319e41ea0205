// What a compiled step holds and when, for the jobs beside it.
#include "memory/share/step_shape.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "memory/compile.h"
#include "memory/swap/swap.h"
#include "tests/support/random_network.h"

namespace pal::test {
namespace {

// Copies take about as long as the nodes beside them.
const DeviceProfile kSmallCard = {.name = "small",
                                  .f32 = 1e12,
                                  .vector = 1e12,
                                  .memory = 1e11,
                                  .link = 2e10,
                                  .launch = 1e-7,
                                  .units = 4,
                                  .tile = 64};

Compiled compiled(uint64_t seed, bool swaps) {
  const Program step =
      random_network(seed, {.layers = 6 + int(seed % 14), .batch = 64, .width = 64});
  KernelCache cache{Device{}};
  const StateLayout layout(step);
  CompileOptions options;
  options.profile = kSmallCard, options.must_fit = false;
  if (swaps) {
    options.swap.method = Swap::planned;
    options.budget = compile(step, cache, layout, options).plan.device().bytes * 3 / 4;
  }
  return compile(step, cache, layout, options);
}

bool computes(const Program& program, NodeId n) { return program.node(n).queue == kComputeQueue; }

void check_bytes(const Compiled& c, const StepShape& shape) {
  const Region& region = c.plan.device();
  const ByStorage<Lifetime> lifetimes = lifetimes_of(c.program, c.storages);
  int64_t outputs = 0, top = region.transients_begin(), top_of_shared = top;
  size_t shared = 0;
  for (StorageId s : c.storages.list.ids()) {
    const Storage& storage = c.storages[s];
    if (storage.space != Space::device || !storage.is_transient()) continue;
    const int64_t end = c.plan.offset[s] + align_up(storage.bytes);
    top = std::max(top, end);
    if (storage.output) {
      outputs += align_up(storage.bytes);
    } else if (!(lifetimes[s].begin >= lifetimes[s].end) && storage.bytes > 0) {
      ++shared, top_of_shared = std::max(top_of_shared, end);
    }
  }
  ASSERT_EQ(top, region.bytes);
  EXPECT_EQ(shape.own_bytes, region.state + 2 * region.inputs + outputs);
  // Outputs move out of the pool: what lay over them stays where it was.
  EXPECT_EQ(shape.alone_bytes, shape.own_bytes + top_of_shared - region.transients_begin());
  EXPECT_LE(shape.alone_bytes, region.bytes + outputs);
  EXPECT_GE(shape.alone_bytes, region.lower_bound);

  EXPECT_EQ(shape.buffers.size(), shared);
  std::set<StorageId> seen;
  for (const SharableBuffer& b : shape.buffers) {
    EXPECT_TRUE(seen.insert(b.storage).second);
    const Storage& storage = c.storages[b.storage];
    EXPECT_FALSE(storage.output || storage.input || storage.persistent);
    EXPECT_EQ(storage.space, Space::device);
    EXPECT_EQ(b.bytes, align_up(storage.bytes));
  }
}

void check_lives(const Compiled& c, const StepShape& shape) {
  const ByStorage<Lifetime> lifetimes = lifetimes_of(c.program, c.storages);
  for (const SharableBuffer& b : shape.buffers) {
    const Lifetime& life = lifetimes[b.storage];
    EXPECT_LE(b.life.begin, life.begin);
    EXPECT_GE(b.life.end, life.end);
    EXPECT_LE(b.life.end, shape.moments());
    EXPECT_EQ(b.life.begin % 2, 0);
    // Only compute asks and reports.
    if (b.life.begin > 0) {
      EXPECT_TRUE(computes(c.program, NodeId(int32_t(b.life.begin / 2))));
    }
    if (b.life.end < shape.moments()) {
      EXPECT_EQ(b.life.end % 2, 1);
      EXPECT_TRUE(computes(c.program, NodeId(int32_t(b.life.end / 2))));
    }
    EXPECT_LE(life.begin - b.life.begin, 1);
    EXPECT_LE(b.life.end - life.end, 1);
  }
}

void check_time(const Compiled& c, const StepShape& shape) {
  const Prediction prediction = predict(c.program, kSmallCard, &c.storages);
  const auto nodes = double(c.program.node_count());
  ASSERT_EQ(shape.moments(), 2 * c.program.node_count());
  ASSERT_EQ(shape.nodes.size(), shape.node.size());
  EXPECT_NEAR(double(shape.ticks()), prediction.step_ms * 1e6, nodes);
  double sum = 0;
  size_t i = 0;
  for (NodeId n : c.program.nodes.ids()) {
    const int64_t begin = shape.tick[size_t(start_of(n))], end = shape.tick[size_t(done_of(n))];
    if (n > 0) {
      EXPECT_GE(begin, shape.tick[size_t(start_of(n)) - 1]);
    }
    if (!computes(c.program, n)) {
      EXPECT_EQ(begin, end);
      continue;
    }
    EXPECT_LT(begin, end);
    EXPECT_NEAR(double(end), prediction.end_ms[n] * 1e6, nodes);
    ASSERT_LT(i, shape.node.size());
    EXPECT_EQ(shape.node[i], n);
    const NodeDemand& demand = shape.nodes[i++];
    EXPECT_NEAR(demand.launch_ms + demand.work_ms, prediction.node_ms[n], 1e-9);
    for (const double part : {demand.flops, demand.memory, demand.units}) {
      EXPECT_GE(part, 0);
      EXPECT_LE(part, 1);
    }
    EXPECT_GE(demand.idle_ms, 0);
    sum += demand.idle_ms + demand.launch_ms + demand.work_ms;
  }
  EXPECT_EQ(i, shape.node.size());
  EXPECT_NEAR(sum * 1e6, double(shape.ticks()), 2 * nodes);
}

TEST(StepShape, OfACompiledStep) {
  for (uint64_t seed = 0; seed < networks_asked(8); ++seed) {
    SCOPED_TRACE(seed);
    const Compiled c = compiled(seed, false);
    const StepShape shape = step_shape("net", c.program, c.storages, c.plan, kSmallCard);
    EXPECT_EQ(shape.name, "net");
    check_bytes(c, shape), check_lives(c, shape), check_time(c, shape);
    // All compute, one node behind the other.
    for (const NodeDemand& demand : shape.nodes) EXPECT_NEAR(demand.idle_ms, 0, 1e-5);
  }
}

TEST(StepShape, OfAStepThatCopiesOnOtherQueues) {
  int copies = 0, idle = 0;
  for (uint64_t seed = 0; seed < networks_asked(8); ++seed) {
    SCOPED_TRACE(seed);
    const Compiled c = compiled(seed, true);
    const StepShape shape = step_shape("net", c.program, c.storages, c.plan, kSmallCard);
    check_bytes(c, shape), check_lives(c, shape), check_time(c, shape);
    copies += int(c.program.nodes.size() - shape.nodes.size());
    for (const NodeDemand& demand : shape.nodes) idle += demand.idle_ms > 1e-4;
  }
  EXPECT_GT(copies, 20);
  EXPECT_GT(idle, 10);
}

// Time is counted in nanoseconds, and some nodes take less.
TEST(StepShape, EveryNodeTakesTime) {
  const Compiled c = compiled(0, false);
  const DeviceProfile fast{.f32 = 1e18, .vector = 1e18, .memory = 1e18};
  const StepShape shape = step_shape("net", c.program, c.storages, c.plan, fast);
  EXPECT_EQ(shape.ticks(), c.program.node_count());
  for (NodeId n : c.program.nodes.ids()) EXPECT_EQ(shape.tick[size_t(done_of(n))], int32_t(n) + 1);
}

// What a node takes with a share of the device is what was measured so; with all of it, as much
// less as was predicted.
TEST(StepShape, WithAShareNodesTakeWhatWasMeasured) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Compiled c = compiled(seed, seed % 2 == 1);
    const StepShape shape = step_shape("step", c.program, c.storages, c.plan, kSmallCard);
    const StepShape whole = with_share(shape, kSmallCard, 1, {});
    EXPECT_NEAR(whole.ms(), shape.ms(), 1e-6 * double(shape.moments()));
    EXPECT_NEAR(whole.ms_alone(), shape.ms(), 1e-6 * double(shape.moments()));
    const StepShape half = with_share(shape, kSmallCard, 0.5, {});
    EXPECT_GE(half.ms(), shape.ms());
    EXPECT_LE(half.ms(), 2 * shape.ms());
    EXPECT_NEAR(half.ms_alone(), whole.ms_alone(), 1e-9);
    for (const NodeDemand& d : half.nodes) {
      EXPECT_LE(std::max({d.flops, d.memory, d.units}), 0.5 + 1e-12);
    }

    std::vector<int64_t> ns(size_t(c.program.node_count()), 0);
    int64_t sum = 0, idle = 0;
    double alone = 0;
    for (size_t i = 0; i < shape.node.size(); ++i) {
      ns[size_t(shape.node[i])] = 1000 + int64_t(i) * 37 % 500;
      const bool runs = half.nodes[i].launch_ms + half.nodes[i].work_ms > 0;
      sum += runs ? ns[size_t(shape.node[i])] : 0;
      idle += std::llround(shape.nodes[i].idle_ms * 1e6);
      alone += shape.nodes[i].idle_ms;
      if (!runs) continue;
      const NodeDemand &all = shape.nodes[i], &some = half.nodes[i];
      alone += double(ns[size_t(shape.node[i])]) * 1e-6 * (all.launch_ms + all.work_ms) /
               (some.launch_ms + some.work_ms);
    }
    const StepShape measured = with_share(shape, kSmallCard, 0.5, ns);
    EXPECT_NEAR(double(measured.ticks()), double(sum + idle), 2.0 * double(shape.node.size()));
    EXPECT_NEAR(measured.ms_alone(), alone, 1e-9 * alone);
    EXPECT_EQ(measured.moments(), shape.moments());
    for (size_t i = 0; i < shape.node.size(); ++i) {
      const auto n = size_t(shape.node[i]);
      if (half.nodes[i].launch_ms + half.nodes[i].work_ms <= 0) continue;
      EXPECT_NEAR(double(measured.tick[2 * n + 1] - measured.tick[2 * n]), double(ns[n]), 1);
    }
  }
}

// One thread of four does more than a quarter of what all do, and nearly fills the memory's rate.
TEST(StepShape, WithAShareNodesTakeWhatAThreadTakes) {
  const Compiled c = compiled(0, false);
  const StepShape shape = step_shape("step", c.program, c.storages, c.plan, kSmallCard);
  DeviceProfile device = kSmallCard;
  device.thread_f32 = device.f32 / 3, device.thread_vector = device.vector / 2;
  device.thread_memory = 0.8 * device.memory;
  const StepShape quarter = with_share(shape, device, 0.25, {});
  const StepShape slowest = with_share(shape, kSmallCard, 0.25, {});
  EXPECT_LT(quarter.ms(), slowest.ms());
  EXPECT_GT(quarter.ms(), shape.ms());
  EXPECT_NEAR(quarter.ms_alone(), shape.ms(), 1e-6 * double(shape.moments()));
  const DeviceProfile part = part_of(device, 0.25);
  double most = 0;
  for (size_t i = 0; i < shape.nodes.size(); ++i) {
    const NodeDemand& d = quarter.nodes[i];
    EXPECT_NEAR(d.launch_ms + d.work_ms, time_ms(shape.work[i], part), 1e-9);
    EXPECT_LE(std::max(d.flops, d.units), 0.25 + 1e-12);
    most = std::max(most, d.memory);
  }
  EXPECT_NEAR(most, 0.8, 1e-9);
}

}  // namespace
}  // namespace pal::test
