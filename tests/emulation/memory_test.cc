// The emulated GPU's memory: the host that touches device memory, and the kernel that touches
// anything else, are caught.
#include "tests/emulation/memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "core/cuda/launch.h"
#include "core/cuda/libraries.h"
#include "tests/emulation/emulation.h"
#include "tests/emulation/pinned.h"

namespace pal::test {
namespace {

constexpr int kFloats = 64;

// Dies where the host touches device memory, so not inlined into what the compiler could leave out.
[[gnu::noinline]] float read_on_host(const volatile float* p) { return *p; }
[[gnu::noinline]] void write_on_host(volatile float* p) { *p = 1; }

class DeviceMemory : public testing::Test {
 protected:
  void SetUp() override {
    emulation::settings() = {};
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&device_), kFloats * sizeof(float)), cudaSuccess);
  }
  void TearDown() override { cudaFree(device_); }
  // What running it says; empty where it went well.
  static std::string error_of(void (*kernel)(float*, const float*), float* y, const float* x) {
    try {
      launch(kernel, Grid(1), 32, 0, nullptr, y, x);
      check_cuda(cudaStreamSynchronize(nullptr));
      return "";
    } catch (const std::exception& error) {
      return error.what();
    }
  }
  float* device_ = nullptr;
};

__global__ void double_kernel(float* y, const float* x) {
  y[thread_number()] = 2 * x[thread_number()];
}
__global__ void stray_kernel(float* y, const float* x) {  // 256 bytes behind their end
  y[thread_number() + kFloats] = x[thread_number()];
}

TEST_F(DeviceMemory, IsReadAndWrittenByCopiesAndKernels) {
  float host[kFloats];
  std::fill_n(host, kFloats, 3.0f);
  Pinned<float> pinned(kFloats);
  cudaMemcpyAsync(device_, host, sizeof host, cudaMemcpyDefault, nullptr);
  EXPECT_EQ(error_of(double_kernel, device_, device_), "");
  EXPECT_EQ(error_of(double_kernel, pinned.data(), device_), "");
  EXPECT_EQ(pinned[31], 12);
  cudaMemcpyAsync(host, device_, sizeof host, cudaMemcpyDefault, nullptr);
  cudaStreamSynchronize(nullptr);
  EXPECT_EQ(host[31], 6);
  EXPECT_EQ(host[32], 3);
}

using DeviceMemoryDeathTest = DeviceMemory;

TEST_F(DeviceMemoryDeathTest, IsOutOfTheHostsReach) {
  EXPECT_DEATH(read_on_host(device_), "the host touches the device's memory");
  EXPECT_DEATH(write_on_host(device_ + kFloats - 1), "the host touches the device's memory");
  // Behind the device's work as before it.
  Pinned<float> x(kFloats);
  EXPECT_EQ(error_of(double_kernel, device_, x.data()), "");
  EXPECT_DEATH(read_on_host(device_), "the host touches the device's memory");
}

// Of work that runs while device memory can be reached, too. The address sanitizer says it its way.
TEST_F(DeviceMemoryDeathTest, EndsWhereItEnds) {
  Pinned<float> x(kFloats);
  EXPECT_DEATH(error_of(stray_kernel, device_, x.data()),
               "a kernel leaves the device's memory|use-after-poison");
}

TEST_F(DeviceMemory, TheHostsIsOutOfKernelsReach) {
#ifndef PAL_EMULATION_CHECKS
  GTEST_SKIP() << "accesses are not checked in this build";
#endif
  const std::string why = "emulation: a kernel touches the host's memory";
  auto heap = std::make_unique<float[]>(kFloats);
  float stack[kFloats] = {};
  static float variable[kFloats] = {};
  for (float* host : {heap.get(), stack, variable}) {
    EXPECT_EQ(error_of(double_kernel, device_, host).substr(0, why.size()), why);
    EXPECT_EQ(error_of(double_kernel, host, device_).substr(0, why.size()), why);
  }
  Pinned<float> x(kFloats);
  EXPECT_EQ(error_of(double_kernel, device_, x.data()), "") << "the machine works as before";
}

TEST_F(DeviceMemory, TheHostsIsOutOfLibrariesReach) {
  float host[kFloats] = {};
  EXPECT_EQ(cudaMemset(host, 0, sizeof host), cudaErrorInvalidValue);
  cudaGetLastError();
  emulation::require_reachable(device_, "an operand");
  emulation::require_reachable(nullptr, "an absent operand");
  EXPECT_THROW(emulation::require_reachable(host, "an operand"), std::runtime_error);
}

// Blocks come and go; none lies on another, and what is freed can be had again.
TEST_F(DeviceMemory, BlocksDoNotTouch) {
  for (const bool pinned : {false, true}) {
    std::vector<char*> blocks;
    for (size_t n = 0; n < 40; ++n) {
      void* p = nullptr;
      ASSERT_EQ(pinned ? cudaMallocHost(&p, 1000 * n + 1) : cudaMalloc(&p, 1000 * n + 1),
                cudaSuccess);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 256, 0u);
      blocks.push_back(static_cast<char*>(p));
      cudaMemsetAsync(p, int(n), 1000 * n + 1, nullptr);
      if (n % 3 == 2) {
        pinned ? cudaFreeHost(blocks[n - 2]) : cudaFree(blocks[n - 2]);
        blocks[n - 2] = nullptr;
      }
    }
    for (size_t n = 0; n < 40; ++n) {
      if (!blocks[n]) continue;
      std::vector<char> held(1000 * n + 1);
      cudaMemcpyAsync(held.data(), blocks[n], held.size(), cudaMemcpyDefault, nullptr);
      cudaStreamSynchronize(nullptr);
      EXPECT_EQ(held, std::vector<char>(held.size(), char(n))) << n;
      pinned ? cudaFreeHost(blocks[n]) : cudaFree(blocks[n]);
    }
  }
}

}  // namespace
}  // namespace pal::test
