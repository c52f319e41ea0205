// The simulated caching allocator, against segments counted by hand.
#include "memory/price/caching_allocator.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace pal {
namespace {

constexpr int64_t kMiB = 1 << 20;

TEST(CachingAllocator, SegmentsBySizeOfTheRequest) {
  auto reserved = [](int64_t size) {
    const std::vector<Buffer> one{{0, 1, size}};
    return caching_allocation(one).reserved;
  };
  EXPECT_EQ(reserved(1), 2 * kMiB);
  EXPECT_EQ(reserved(kMiB), 2 * kMiB);
  EXPECT_EQ(reserved(kMiB + 1), 20 * kMiB);
  EXPECT_EQ(reserved(10 * kMiB - 512), 20 * kMiB);
  EXPECT_EQ(reserved(10 * kMiB), 10 * kMiB);
  EXPECT_EQ(reserved(11 * kMiB), 12 * kMiB);
}

TEST(CachingAllocator, AFreedBlockIsTakenAgainAndSplit) {
  // 12 MiB, then 11 MiB in its place: the MiB that is left is not split off. 9 MiB would be.
  EXPECT_EQ(caching_allocation(
                std::vector<Buffer>{{0, 1, 12 * kMiB}, {1, 2, 11 * kMiB}, {1, 2, kMiB + 512}})
                .reserved,
            32 * kMiB);
  EXPECT_EQ(
      caching_allocation(std::vector<Buffer>{{0, 1, 12 * kMiB}, {1, 2, 9 * kMiB}, {1, 2, 2 * kMiB}})
          .reserved,
      12 * kMiB);
}

TEST(CachingAllocator, NeighboursJoinWithinASegmentOnly) {
  // Two halves of one segment join; two segments do not.
  EXPECT_EQ(
      caching_allocation(std::vector<Buffer>{{0, 2, 8 * kMiB}, {1, 2, 8 * kMiB}, {3, 4, 18 * kMiB}})
          .reserved,
      20 * kMiB);
  EXPECT_EQ(caching_allocation(
                std::vector<Buffer>{
                    {0, 1, 20 * kMiB}, {1, 2, 8 * kMiB}, {1, 2, 12 * kMiB}, {3, 4, 20 * kMiB}})
                .reserved,
            20 * kMiB);
  const auto apart = caching_allocation(
      std::vector<Buffer>{{0, 1, 10 * kMiB}, {0, 1, 10 * kMiB}, {1, 2, 20 * kMiB}});
  EXPECT_EQ(apart.reserved, 40 * kMiB);
  EXPECT_EQ(apart.allocated, 20 * kMiB);
  EXPECT_DOUBLE_EQ(apart.fragmentation(), 0.5);
}

TEST(CachingAllocator, TakesTheSmallestThatIsLargeEnough) {
  // Free: 30 and 12 MiB. The request of 12 takes the 12, so that 30 still finds its place.
  EXPECT_EQ(caching_allocation(
                std::vector<Buffer>{
                    {0, 1, 30 * kMiB}, {0, 1, 12 * kMiB}, {2, 4, 12 * kMiB}, {3, 4, 30 * kMiB}})
                .reserved,
            42 * kMiB);
}

TEST(CachingAllocator, NeverReservesLessThanIsAlive) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<Buffer> buffers;
    for (int i = 0; i < 200; ++i) {
      const int64_t begin = random() % 100;
      const int64_t size = int64_t(1) << (random() % 25);
      buffers.push_back(
          {begin, begin + 1 + int64_t(random() % 30), size + int64_t(random() % size)});
    }
    const CachingAllocation a = caching_allocation(buffers);
    EXPECT_EQ(a.allocated, lower_bound_of(buffers));
    EXPECT_GE(a.reserved, a.allocated);
    EXPECT_LE(a.allocated_at_peak, a.allocated);
  }
}

}  // namespace
}  // namespace pal
