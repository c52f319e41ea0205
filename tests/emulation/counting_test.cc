// What is counted of kernels: launches, and bytes as a GPU's memory would see them.
#include "tests/emulation/counting.h"

#include "core/cuda/launch.h"
#include "tests/emulation/counting_fixture.h"

namespace pal::test {
namespace {

class Counting : public CountsKernels {
 protected:
  void TearDown() override {
    for (void* p : held_) cudaFree(p);
    CountsKernels::TearDown();
  }
  float* floats(int64_t n) {
    void* p = nullptr;
    EXPECT_EQ(cudaMalloc(&p, size_t(n) * sizeof(float)), cudaSuccess);
    held_.push_back(p);
    return static_cast<float*>(p);
  }
  template <class... A> LaunchCount counted(A... args) {
    const std::vector<LaunchCount> all = counter_->count([&] { launch(args...); });
    EXPECT_EQ(all.size(), 1u);
    return all.at(0);
  }

  std::vector<void*> held_;
};

__global__ void copy_kernel(float* y, const float* x, int64_t n) {
  const int64_t i = thread_number();
  if (i < n) y[i] = x[i];
}

// Of a grid of which some blocks run, as of one that runs whole.
TEST_F(Counting, EveryByteOnceWhateverTheGrid) {
  for (const int64_t n : {int64_t(256), int64_t(65536), int64_t(1) << 20, int64_t(1) << 28}) {
    const LaunchCount count = counted(copy_kernel, Grid(blocks_of(n, 256)), 256, 0, cudaStream_t(),
                                      floats(n), floats(n), n);
    EXPECT_EQ(count.read, double(4 * n));
    EXPECT_EQ(count.written, double(4 * n));
    EXPECT_EQ(count.blocks, n / 256);
    EXPECT_EQ(count.threads, 256);
    EXPECT_EQ(count.where.substr(0, 17), "counting_test.cc:");
  }
}

// Every thread reads one of so many floats, far apart.
__global__ void stride_kernel(float* y, const float* x, int64_t stride) {
  y[thread_number()] = x[thread_number() * stride];
}
TEST_F(Counting, SectorsNotBytes) {
  const LaunchCount count = counted(stride_kernel, Grid(64), 256, 0, cudaStream_t(), floats(16384),
                                    floats(16384 * 16), int64_t(16));
  EXPECT_EQ(count.read, 16384.0 * 32);
  EXPECT_EQ(count.written, 16384.0 * 4);
}

// A block reads its n floats twice, one pass behind the other.
__global__ void twice_kernel(float* y, const float* x, int64_t n) {
  const float* mine = x + blockIdx.x * n;
  float sum = 0;
  for (int pass = 0; pass < 2; ++pass) {
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) sum += mine[i];
    __syncthreads();
  }
  y[thread_number()] = sum;
}
TEST_F(Counting, WhatABlockComesBackToIsMovedAgainIfTooMuchLiesBetween) {
  const int64_t few = 4 << 10, many = 64 << 10;  // 16 and 256 KiB
  for (const int64_t n : {few, many}) {
    const LaunchCount count = counted(twice_kernel, Grid(32), 256, 0, cudaStream_t(),
                                      floats(32 * 256), floats(32 * n), n);
    EXPECT_EQ(count.read, (n == few ? 1 : 2) * 32.0 * double(4 * n));
  }
}

// All blocks read the same.
__global__ void same_kernel(float* y, const float* x) { y[thread_number()] = x[threadIdx.x]; }
TEST_F(Counting, NeighboursShareWhatTheyRead) {
  const LaunchCount count =
      counted(same_kernel, Grid(64), 256, 0, cudaStream_t(), floats(64 * 256), floats(256));
  EXPECT_EQ(count.read, 4 * 1024.0) << "16 blocks at a time";
  EXPECT_EQ(count.written, 64 * 1024.0);
}

TEST_F(Counting, SmallOperandsAreReadOnce) {
  float *y = floats(1 << 20), *x = floats(256);
  const auto work = [&] { launch(same_kernel, Grid(4096), 256, 0, nullptr, y, x); };
  EXPECT_EQ(counter_->count(work).at(0).read, 4096 / 16 * 1024.0);
  EXPECT_EQ(counter_->count(work, {{x, 1024}}).at(0).read, 1024);
}

// What the kernel wrote itself is there.
__global__ void reread_kernel(float* y) {
  y[thread_number()] = 1;
  __syncthreads();
  y[thread_number()] += y[thread_number() ^ 1];
}
TEST_F(Counting, WhatABlockWroteItDoesNotMoveAgain) {
  const LaunchCount count = counted(reread_kernel, Grid(4), 256, 0, cudaStream_t(), floats(1024));
  EXPECT_EQ(count.read, 0);
  EXPECT_EQ(count.written, 4096);
}

// A thread has two fours side by side, or a warp's threads have: the same sectors, asked for twice.
__global__ void fours_kernel(float4* y, const float4* x, bool apart) {
  for (int k = 0; k < 2; ++k) {
    const int64_t warp = thread_number() / 32 * 64, lane = thread_number() % 32;
    const int64_t i = warp + (apart ? lane + 32 * k : 2 * lane + k);
    y[i] = x[i];
  }
}
TEST_F(Counting, SectorsThatAWarpAsksFor) {
  auto *y = reinterpret_cast<float4*>(floats(1 << 21)),
       *x = reinterpret_cast<float4*>(floats(1 << 21));
  for (const bool apart : {false, true}) {
    const LaunchCount count =
        counted(fours_kernel, Grid(1024), 256, 0, cudaStream_t(), y, x, apart);
    EXPECT_EQ(count.read, double(8 << 20));
    EXPECT_EQ(count.asked, (apart ? 1 : 2) * (count.read + count.written));
  }
}

TEST_F(Counting, CopiesAndFillsAreLaunches) {
  float *x = floats(1 << 20), *y = floats(1 << 20);
  const std::vector<LaunchCount> all = counter_->count([&] {
    cudaMemsetAsync(x, 0, 4 << 20, nullptr);
    cudaMemcpyAsync(y, x, 4 << 20, cudaMemcpyDefault, nullptr);
    launch(same_kernel, Grid(1), 256, 0, nullptr, y, x);
  });
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].kind, LaunchCount::Kind::fill);
  EXPECT_EQ(all[0].written, double(4 << 20));
  EXPECT_EQ(all[1].kind, LaunchCount::Kind::copy);
  EXPECT_EQ(all[1].read, double(4 << 20));
  EXPECT_EQ(all[2].kind, LaunchCount::Kind::kernel);
}

// The same each time, and nothing is left behind where a kernel is refused.
TEST_F(Counting, GoesOnBehindAnError) {
  float *x = floats(256), *y = floats(256);
  EXPECT_ANY_THROW(counter_->count([&] {
    launch(same_kernel, Grid(1), 32, 1 << 20, nullptr, y, x);  // shared memory that no block has
  }));
  const Grid one(1);
  const LaunchCount count = counted(same_kernel, one, 256, 0, cudaStream_t(), y, x);
  EXPECT_EQ(count.read, 1024);
  EXPECT_EQ(count, counted(same_kernel, one, 256, 0, cudaStream_t(), y, x));
}

}  // namespace
}  // namespace pal::test
