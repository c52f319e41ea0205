// The processor's profile: that it is measured, written, and read back. No figure is asserted.
#include "train/commands/measure_cpu.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/error.h"
#include "train/commands/cli.h"
#include "train/commands/commands.h"
#include "train/config/profile.h"

namespace pal {
namespace {

TEST(MeasureCpu, FillsAProfileThatReadsBack) {
  const CpuMeasurement m = measure_cpu(cpu_device(1), 0.001);
  const DeviceProfile& p = m.profile;
  EXPECT_TRUE(p.measured);
  EXPECT_EQ(p.units, 1);
  EXPECT_TRUE(p.f32 > 1e8 && p.f32 < 1e14) << p.f32;
  EXPECT_TRUE(p.vector > 1e8 && p.vector < 1e14) << p.vector;
  EXPECT_TRUE(p.memory > 1e8 && p.memory < 1e13) << p.memory;
  EXPECT_TRUE(p.launch > 1e-9 && p.launch < 1e-3) << p.launch;
  EXPECT_TRUE(p.matmul_efficiency > 0 && p.matmul_efficiency <= 1);
  EXPECT_TRUE(p.cache == 0 || p.cache > p.memory);
  EXPECT_GT(p.capacity, 1 << 28);
  EXPECT_EQ(m.products.size(), 6u);
  EXPECT_EQ(m.streams.back().bytes, 192 << 20);
  const DeviceProfile again = parse_profile(profile_text(p, describe(m)), "cpu.yaml");
  EXPECT_EQ(again.name, p.name);
  EXPECT_DOUBLE_EQ(again.f32, p.f32);
  EXPECT_DOUBLE_EQ(again.launch, p.launch);
  EXPECT_EQ(again.cache_bytes, p.cache_bytes);
}

TEST(MeasureCpu, ThreadsAreMeasuredTogetherAndOneAlone) {
  const DeviceProfile one = measure_cpu(cpu_device(1), 0.001).profile;
  EXPECT_EQ(one.thread_f32, 0);
  const DeviceProfile two = measure_cpu(cpu_device(2), 0.001).profile;
  EXPECT_GT(two.thread_f32, 1e8);
  EXPECT_GT(two.thread_vector, 1e8);
  EXPECT_GT(two.thread_memory, 1e8);
  const DeviceProfile again = parse_profile(profile_text(two, {}), "cpu.yaml");
  EXPECT_DOUBLE_EQ(again.thread_f32, two.thread_f32);
  EXPECT_DOUBLE_EQ(again.thread_memory, two.thread_memory);
  EXPECT_DOUBLE_EQ(again.piece, two.piece);
  EXPECT_GT(two.piece, 1024);
  EXPECT_GE(two.fork, 0);
}

TEST(MeasureCpu, TheCommandNeedsProfile) {
  EXPECT_THROW(parse_command_line("pal", {"bench"}), UsageError);
  const auto args = std::any_cast<BenchArgs>(
      parse_command_line("pal", {"bench", "--profile", "--out", "x.yaml", "--json"}).args);
  EXPECT_EQ(args.out, "x.yaml");
  EXPECT_TRUE(args.json);
}

}  // namespace
}  // namespace pal
