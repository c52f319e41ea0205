// Which device steps run on, and what is said of it where there is no GPU.
#include <gtest/gtest.h>

#include "core/accelerator.h"
#include "train/loop/run_options.h"

namespace pal {
namespace {

DeviceConfig config_of(const std::string& type) {
  DeviceConfig config;
  config.type = type;
  config.threads = 1;
  return config;
}

TEST(ChooseDevice, CpuIsTheCpu) {
  std::string said;
  const Device device = choose_device(config_of("cpu"), &said);
  EXPECT_EQ(device.kind, DeviceKind::cpu);
  EXPECT_EQ(said, "device  cpu, 1 thread");
}

// Without a GPU: exit 2 and one line that says what to do; auto goes on, and says why.
TEST(ChooseDevice, CudaIsRefusedWhereThereIsNoneAndAutoSaysSo) {
  std::string refusal;
  try {
    if (choose_device(config_of("cuda")).accelerator) GTEST_SKIP() << "there is a GPU";
    ADD_FAILURE() << "neither a GPU nor a refusal";
  } catch (const UsageError& error) {
    refusal = error.what();
    EXPECT_EQ(error.exit_code, kExitUsage);
  }
  EXPECT_EQ(refusal.find("device cuda: "), 0u) << refusal;
  EXPECT_NE(refusal.find("set device.type to cpu"), std::string::npos) << refusal;
  EXPECT_EQ(refusal.find('\n'), std::string::npos) << refusal;
  std::string said;
  const Device device = choose_device(config_of("auto"), &said);
  EXPECT_EQ(device.kind, DeviceKind::cpu);
  EXPECT_EQ(said, "device  cpu, 1 thread (" + refusal + ")");
}

}  // namespace
}  // namespace pal
