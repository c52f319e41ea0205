// The emulation itself: it runs kernels as a GPU would, and refuses what a GPU would not forgive.
#include <gtest/gtest.h>

#include <numeric>

#include "core/cuda/launch.h"
#include "tests/emulation/emulation.h"
#include "tests/emulation/pinned.h"

namespace pal::test {
namespace {

using emulation::Order;

class Machine : public testing::Test {
 protected:
  void SetUp() override { emulation::settings() = {}; }
  void TearDown() override { emulation::settings() = {}; }
  // Launches have no stream, so that nobody does them before they are waited for.
  template <class... A> static void launched(A... args) {
    launch(args...);
    check_cuda(cudaStreamSynchronize(nullptr));
  }
  template <class F> void refused(const std::string& why, F run) {
    try {
      run();
      ADD_FAILURE() << "not refused: " << why;
    } catch (const std::exception& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  }
};

__global__ void numbers_kernel(int64_t* y, int64_t n) {
  const int64_t i = thread_number();
  if (i < n) y[i] = i;
}
TEST_F(Machine, RunsEveryThreadOnce) {
  Pinned<int64_t> y(1000, -1);
  std::vector<int64_t> want(1000);
  std::iota(want.begin(), want.end(), 0);
  launched(numbers_kernel, Grid(16), 64, 0, nullptr, y.data(), int64_t(1000));
  EXPECT_EQ(y.copy(), want);
}

// A sum through shared memory, reversed on the way; without the barrier it depends on the order.
__global__ void reverse_kernel(int* y, bool barrier) {
  int* shared = shared_memory<int>();
  shared[threadIdx.x] = int(threadIdx.x);
  if (barrier) __syncthreads();
  y[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}
TEST_F(Machine, BarriersOrderTheThreads) {
  for (bool barrier : {true, false}) {
    std::set<std::vector<int>> results;
    for (Order order : {Order::forward, Order::backward, Order::shuffled}) {
      emulation::settings().order = order;
      Pinned<int> y(96);
      launched(reverse_kernel, Grid(1), 96, 96 * sizeof(int), nullptr, y.data(), barrier);
      if (barrier) {
        for (int i = 0; i < 96; ++i) EXPECT_EQ(y[size_t(i)], 95 - i);
      }
      results.insert(y.copy());
    }
    EXPECT_EQ(results.size() == 1, barrier);
  }
}

__global__ void shuffle_kernel(int* y, int* ballots) {
  const int lane = lane_number();
  int sum = lane;
  for (int bits = 16; bits > 0; bits /= 2) sum += __shfl_xor_sync(~0u, sum, bits);
  const int first = __shfl_sync(~0u, int(threadIdx.x), 0), next = __shfl_down_sync(~0u, lane, 1);
  y[threadIdx.x] = sum * 10000 + first * 100 + next;
  ballots[threadIdx.x] = int(__ballot_sync(~0u, lane % 2));
}
TEST_F(Machine, ShufflesReachTheWarpAlone) {
  for (Order order : {Order::forward, Order::backward, Order::shuffled}) {
    emulation::settings().order = order;
    Pinned<int> y(64), ballots(64);
    launched(shuffle_kernel, Grid(1), 64, 0, nullptr, y.data(), ballots.data());
    for (int i = 0; i < 64; ++i) {
      const int lane = i % 32, first = i / 32 * 32, next = lane < 31 ? lane + 1 : 31;
      EXPECT_EQ(y[size_t(i)], 496 * 10000 + first * 100 + next);
      EXPECT_EQ(unsigned(ballots[size_t(i)]), 0xAAAAAAAAu);
    }
  }
}

__global__ void divergent_kernel() {
  if (threadIdx.x < 40) __syncthreads();
}
__global__ void lost_lane_kernel(int* y) {
  if (lane_number() == 3) return;
  y[threadIdx.x] = __shfl_sync(~0u, int(threadIdx.x), 3);
}
__global__ void overflow_kernel() { shared_memory<int>()[threadIdx.x] = 1; }
// The machine is to notice, not the sanitizer.
__attribute__((no_sanitize("alignment"))) __global__ void vector_kernel(float* x) {
  *reinterpret_cast<float4*>(x) = make_float4(1, 2, 3, 4);
}
__global__ void fresh_kernel(float* y) { y[threadIdx.x] = shared_memory<float>()[threadIdx.x]; }

TEST_F(Machine, RefusesWhatAGpuWouldNotForgive) {
  Pinned<int> y(64);
  Pinned<float> x(8);
  refused("cannot go on", [] { launched(divergent_kernel, Grid(1), 64, 0, nullptr); });
  refused("cannot go on", [&] { launched(lost_lane_kernel, Grid(1), 64, 0, nullptr, y.data()); });
  refused("past its end",
          [] { launched(overflow_kernel, Grid(1), 64, 32 * sizeof(int), nullptr); });
  refused("off its boundary",
          [&] { launched(vector_kernel, Grid(1), 32, 0, nullptr, x.data() + 1); });
  refused("threads", [] { launched(overflow_kernel, Grid(1), 48, 400, nullptr); });
  refused("bytes of shared", [] { launched(overflow_kernel, Grid(1), 64, 64 << 10, nullptr); });
  launched(vector_kernel, Grid(1), 32, 0, nullptr, x.data());
  EXPECT_EQ(x[3], 4);
}
TEST_F(Machine, SharedMemoryHoldsNothingUseful) {
  Pinned<float> y(32);
  launched(fresh_kernel, Grid(1), 32, 32 * sizeof(float), nullptr, y.data());
  for (float v : y.copy()) EXPECT_TRUE(std::isnan(v));
}
TEST_F(Machine, LaunchesAreRecordedWithTheirPlace) {
  const int line = __LINE__ + 1;
  launched(fresh_kernel, Grid(0), 32, 0, nullptr, nullptr);
  EXPECT_FALSE(emulation::launches().count({"machine_test.cc", line}));  // no blocks, no launch
  Pinned<float> y(32);
  launched(fresh_kernel, Grid(1), 32, 32 * sizeof(float), nullptr, y.data());
  EXPECT_TRUE(emulation::launches().count({"machine_test.cc", line + 3}));
}

}  // namespace
}  // namespace pal::test
