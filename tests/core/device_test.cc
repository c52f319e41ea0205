// What a device is where nothing more is said of it.
#include "core/device.h"

#include <gtest/gtest.h>
#include <omp.h>

#include "core/accelerator.h"
#include "core/error.h"

namespace pal {
namespace {

TEST(Device, TheCpuHasAllProcessorsUnlessToldOtherwise) {
  EXPECT_EQ(cpu_device(3).threads, 3);
  EXPECT_EQ(cpu_device(0).threads, omp_get_num_procs());
  EXPECT_EQ(cpu_device(0).kind, DeviceKind::cpu);
}

TEST(Device, ABuildWithoutCudaSaysSo) {
  if (open_accelerator) GTEST_SKIP() << "this build has it";
  EXPECT_THROW(cuda_device(0), UsageError);
}

}  // namespace
}  // namespace pal
