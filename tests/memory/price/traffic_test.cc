// What a step moves between the device and the host's memory, and how long it waits for that.
#include "memory/price/traffic.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/builder.h"
#include "memory/passes/assign_queues.h"
#include "memory/storages/storages.h"
#include "memory/swap/swap.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/sums/reduce.h"

namespace pal::test {
namespace {

// y_0 .. y_7 are made one after the other and read from the last to the first.
Program rungs() {
  Builder b;
  std::vector<Val> y{tanh(b.input("x", {{1 << 16}}))};
  while (y.size() < 8) y.push_back(tanh(y.back()));
  Val g = mul(y[7], y[7]);
  for (size_t i = 7; i-- > 0;) g = mul(g, y[i]);
  b.output("loss", sum_all(g));
  Program p = b.take();
  for (NodeId n = 8; n < p.node_count(); ++n) p.node(n).phase = Phase::backward;
  return p;
}

// Naive swapping waits for every copy, so the step takes compute and copies, one after the other.
TEST(Traffic, CountsCopiesAndWaits) {
  const Program p = rungs();
  const DeviceProfile card{
      .name = "card", .f32 = 1e12, .vector = 1e11, .memory = 1e11, .link = 1e10, .tile = 1};
  const auto moved = swapped(p, {.method = Swap::naive},
                             {.device = card, .workspace = ByNode<int64_t>(p.nodes.size(), 0)});
  ASSERT_TRUE(moved);
  const Program step = *assign_queues(*moved);
  const Storages storages = assign_storages(step);
  const Prediction times = predict(step, card, &storages);
  const Traffic traffic = traffic_of(step, storages, times);
  constexpr int64_t kOneMap = 4 << 16;
  EXPECT_GT(traffic.offloads, 4);
  EXPECT_EQ(traffic.reloads, traffic.offloads);
  EXPECT_EQ(traffic.recomputes, 0);
  EXPECT_EQ(traffic.moved_bytes, 2 * traffic.offloads * kOneMap);
  EXPECT_EQ(traffic.host_bytes, traffic.offloads * kOneMap);
  EXPECT_NEAR(traffic.copy_ms, 1e3 * double(traffic.moved_bytes) / card.link, 1e-9);
  EXPECT_NEAR(traffic.stall_ms, traffic.copy_ms, 1e-9);
  EXPECT_NEAR(traffic.overlap(), 0, 1e-6);
  EXPECT_TRUE(traffic.any());
  EXPECT_TRUE(has_copies(step));
  EXPECT_FALSE(has_copies(p));
  // Without copies there is nothing to say.
  const Storages plain = assign_storages(p);
  EXPECT_FALSE(traffic_of(p, plain, predict(p, card, &plain)).any());
}

}  // namespace
}  // namespace pal::test
