// What several devices cost, as figures and as a line.
#include "train/report/device_facts.h"

#include <gtest/gtest.h>

#include <memory>

#include "core/builder.h"
#include "memory/compile.h"
#include "ops/elementwise/activations.h"
#include "ops/sums/reduce.h"
#include "tests/memory/toy_card.h"

namespace pal {
namespace {

DeviceFacts facts_of(int64_t ranks, DeviceProfile device) {
  Builder b;
  b.output("loss", sum_all(tanh(b.input("x", {{64, 64}}))));
  Program program = b.take();
  const StateLayout layout(program);
  KernelCache cache(cpu_device(1));
  device.links = std::make_shared<const Links>(Links{.ranks = ranks, .per_node = ranks});
  return device_facts(compile(std::move(program), cache, layout, {.profile = device}), device);
}

TEST(DeviceFacts, OneDeviceAndProcessorsHaveNothingOfNccls) {
  EXPECT_EQ(facts_of(1, test::toy_card(1e9)).nccl_bytes, 0);
  EXPECT_GT(facts_of(2, test::toy_card(1e9)).nccl_bytes, 0);
  EXPECT_EQ(facts_of(2, test::toy_card(0)).nccl_bytes, 0);
}

TEST(DeviceFacts, JoulesAreThoseOfWorkAndOfWaiting) {
  DeviceProfile device = test::toy_card(1e9);
  EXPECT_FALSE(joules_of(device, 4, 10, 2));
  device.busy = 300, device.idle = 50;
  EXPECT_DOUBLE_EQ(joules_of(device, 4, 10, 2).value(), 4 * (300 * 8 + 50 * 2) * 1e-3);
}

TEST(DeviceFacts, RanksThatExchangeNothingAreAsManyTimesAsFast) {
  EXPECT_DOUBLE_EQ(facts_of(1, test::toy_card(1e9)).speedup, 1);
  EXPECT_DOUBLE_EQ(facts_of(4, test::toy_card(1e9)).speedup, 4);
}

TEST(DeviceFacts, TheLineSaysWhatIsKnown) {
  DeviceFacts facts{.ranks = 1024,
                    .per_node = 8,
                    .link = "NVLink 4",
                    .communication_ms = 3.25,
                    .exposed_ms = 1.5,
                    .link_bytes = 2e6,
                    .speedup = 900.5};
  const std::string line =
      "devices (predicted): 1,024 ranks, 8 a node over NVLink 4: each sends 2.00 MB in 3.25 ms, of "
      "which 1.5 exposed, speedup 900.5";
  EXPECT_EQ(line_of(facts), line);
  facts.joules = 12.5, facts.nccl_bytes = 1'000'000;
  EXPECT_EQ(line_of(facts), line + ", 12.5 J a step; NCCL takes 1.00 MB more (assumed)");
}

}  // namespace
}  // namespace pal
