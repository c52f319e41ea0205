// Launches priced by hand.
#include "memory/price/kernel_times.h"

#include <gtest/gtest.h>

namespace pal::test {
namespace {

// 1 Tflop/s of products, 4 of bf16's, at a half; 100 Gflop/s of anything else; 10 GB/s; 10 units.
DeviceProfile card() {
  return {.name = "toy",
          .f32 = 1e12,
          .bf16 = 4e12,
          .vector = 1e11,
          .memory = 1e10,
          .launch = 4e-6,
          .graph_kernel = 1e-6,
          .stream_kernel = 3e-6,
          .units = 10,
          .tile = 4096,
          .matmul_efficiency = 0.5};
}
using Kind = LaunchCount::Kind;
LaunchCount kernel(double bytes, int64_t blocks, double product_flops = 0) {
  return {.blocks = blocks, .threads = 256, .read = bytes, .product_flops = product_flops};
}
double ms_of(const Work& work, const LaunchCount& launch, bool graph = true) {
  const std::vector<double> ms = launch_times(work, {&launch, 1}, card(), graph);
  return ms.at(0);
}

TEST(KernelTimes, BytesAtTheBandwidthThatTheGridCanUse) {
  const double us = 1e-3;
  EXPECT_DOUBLE_EQ(ms_of({}, kernel(1e6, 1000)), 101 * us);
  EXPECT_DOUBLE_EQ(ms_of({}, kernel(1e6, 20)), 101 * us) << "512 threads a unit";
  EXPECT_DOUBLE_EQ(ms_of({}, kernel(1e6, 2)), 1001 * us) << "a tenth of them";
  EXPECT_DOUBLE_EQ(ms_of({}, kernel(1e6, 1000), false), 103 * us) << "not recorded";
  const LaunchCount copy{.kind = Kind::copy, .read = 5e5, .written = 5e5};
  EXPECT_DOUBLE_EQ(ms_of({}, copy), 101 * us);
}

TEST(KernelTimes, ALaunchCostsANodesWhereAProfileSaysNoMore) {
  DeviceProfile plain = card();
  plain.graph_kernel = plain.stream_kernel = 0;
  const LaunchCount one = kernel(0, 1);
  EXPECT_DOUBLE_EQ(launch_times({}, {&one, 1}, plain, true).at(0), 4e-3);
  EXPECT_DOUBLE_EQ(launch_times({}, {&one, 1}, plain, false).at(0), 4e-3);
}

TEST(KernelTimes, FlopsOutsideOfProductsAreTheKernelsByTheirBytes) {
  const Work work{.flops = 4e8};
  const LaunchCount both[] = {kernel(3e6, 1000), kernel(1e6, 1000)};
  const std::vector<double> ms = launch_times(work, both, card(), true);
  EXPECT_DOUBLE_EQ(ms[0], 3.001);
  EXPECT_DOUBLE_EQ(ms[1], 1.001);
}

// A library does the rest in its epilogue; a kernel beside it moves bytes alone.
TEST(KernelTimes, OfALibraryTheProductAlone) {
  const Work work{.flops = 2.001e9, .results = 1 << 20, .type = DType::bf16};
  const LaunchCount both[] = {
      kernel(1e4, 20), {.kind = Kind::library, .read = 3e6, .written = 1e6, .product_flops = 2e9}};
  const std::vector<double> ms = launch_times(work, both, card(), true);
  EXPECT_DOUBLE_EQ(ms[0], 2e-3);
  // 256 tiles in 26 turns of 10: 0.985 of 2 Tflop/s.
  EXPECT_NEAR(ms[1], 1 / (256 / 260.0) + 1e-3, 1e-9);
}

TEST(KernelTimes, TensorCoresOfAKernelOfOurs) {
  const Work work{.flops = 2e9, .results = 1 << 20, .type = DType::bf16};
  EXPECT_DOUBLE_EQ(ms_of(work, kernel(1e5, 1000, 2e9)), 1.001);
  EXPECT_DOUBLE_EQ(ms_of(work, kernel(1e5, 5, 2e9)), 2.001) << "half of the units";
}

TEST(KernelTimes, TheLeastIsOneLaunch) {
  const Work work{.flops = 1e6, .bytes = 1e6};
  EXPECT_DOUBLE_EQ(least_ms(work, true, card(), true), 0.101);
  EXPECT_DOUBLE_EQ(least_ms(work, true, card(), false), 0.103);
  EXPECT_EQ(least_ms(work, false, card(), true), 0) << "nothing is launched";
}

// What launches use of the card, weighted by the time that they work.
TEST(KernelTimes, DemandsAreMeansOverTheWork) {
  const LaunchCount few = kernel(1e6, 2), many = kernel(1e6, 1000);
  const auto demand = [](std::span<const LaunchCount> launches, bool graph) {
    return demand_of_launches({}, launches, card(), graph);
  };
  NodeDemand d = demand({&few, 1}, true);
  EXPECT_DOUBLE_EQ(d.launch_ms, 1e-3);
  EXPECT_DOUBLE_EQ(d.work_ms, 1);
  EXPECT_DOUBLE_EQ(d.memory, 0.1);
  EXPECT_DOUBLE_EQ(d.units, 0.2);
  d = demand({&many, 1}, false);
  EXPECT_DOUBLE_EQ(d.launch_ms, 3e-3);
  EXPECT_DOUBLE_EQ(d.memory, 1);
  EXPECT_DOUBLE_EQ(d.units, 1);
  const LaunchCount both[] = {few, many};
  d = demand(both, true);
  EXPECT_DOUBLE_EQ(d.launch_ms, 2e-3);
  EXPECT_DOUBLE_EQ(d.work_ms, 1.1);
  EXPECT_DOUBLE_EQ(d.memory, 0.2 / 1.1);
  EXPECT_DOUBLE_EQ(d.units, (0.2 + 0.1) / 1.1);
  EXPECT_EQ(demand({}, true).work_ms, 0);
}

}  // namespace
}  // namespace pal::test
