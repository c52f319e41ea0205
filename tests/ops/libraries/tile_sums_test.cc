// What is one sum on AMX, and the cache that says so, of processors that this one is not.
#include "ops/libraries/tile_sums.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace pal {
namespace {

TEST(TileSums, AreOneWhereThereIsRoomForAllTerms) {
  EXPECT_EQ(threads_of_tile_sum({.m = 4096, .n = 4096, .k = 32}), std::numeric_limits<int>::max());
  EXPECT_EQ(threads_of_tile_sum({.m = 4096, .n = 4096, .k = 1 << 20}), 0);
  for (const int64_t m : {8, 64, 65, 4096}) {
    for (const int64_t n : {8, 64, 300, 4096}) {
      int before = std::numeric_limits<int>::max();
      for (int64_t k = 32; k < 8192; k += 32) {
        const int threads = threads_of_tile_sum({.m = m, .n = n, .k = k});
        EXPECT_LE(threads, before);  // of more terms
        EXPECT_LE(threads_of_tile_sum({.m = m, .n = n, .k = k + 1, .accumulate = true}), threads);
        EXPECT_TRUE(k <= 1024 || threads < 16);
        before = threads;
      }
      const int64_t piece = tile_piece(m, n);
      EXPECT_EQ(piece % 32, 0);
      EXPECT_TRUE(piece >= 128 || m > 64 || n > 64);
      for (int64_t k = 1; k <= piece; ++k) {
        EXPECT_GT(threads_of_tile_sum({.m = m, .n = n, .k = k, .accumulate = true}), 16) << k;
      }
    }
  }
}

// As the processor describes them.
enum Type : unsigned { data = 1, instructions, unified };
struct Cache {
  unsigned level, type, threads, ways, partitions, line, sets;
};
constexpr Cache kFirst{1, data, 2, 12, 1, 64, 64}, kSecond{2, unified, 2, 16, 1, 64, 2048},
    kThird{3, unified, 64, 15, 1, 64, 1 << 16};

// Threads of a core and in all: 0 where it does not say.
int64_t second(unsigned of_core, unsigned of_all, const std::vector<Cache>& caches) {
  return second_cache([&](unsigned leaf, unsigned index, CpuidWords& w) {
    w = {};
    if (leaf == 0xB) {
      w.b = (7u << 16) + (index == 0 ? of_core : of_all);  // beside bits of no meaning
      return of_core > 0;
    }
    if (leaf != 4 || caches.empty()) return false;
    if (index >= caches.size()) return true;
    const Cache& c = caches[index];
    w.a = c.type | c.level << 5 | 1u << 8 | (c.threads - 1) << 14 | 3u << 26;
    w.b = (c.line - 1) | (c.partitions - 1) << 12 | (c.ways - 1) << 22;
    w.c = c.sets - 1;
    return true;
  });
}

constexpr int64_t kMiB = 1 << 20;

TEST(TileSums, ReckonWithACoresOwnSecondCache) {
  EXPECT_EQ(second(2, 112, {kFirst, kSecond, kThird}), 2 * kMiB);
  EXPECT_EQ(second(2, 112, {kSecond}), 2 * kMiB);
  EXPECT_EQ(second(2, 112, {kFirst, {2, data, 2, 8, 2, 128, 1024}}), 2 * kMiB);
  const Cache code{1, instructions, 1, 8, 1, 64, 64}, more_code{2, instructions, 1, 8, 1, 64, 512};
  EXPECT_EQ(second(2, 112, {kFirst, code, more_code, kSecond}), 2 * kMiB);
}

TEST(TileSums, ReckonWithAShareOfACacheOfSeveralCores) {
  const Cache shared{2, unified, 4, 16, 1, 64, 4096};
  EXPECT_EQ(second(1, 16, {kFirst, shared}), kMiB);
  EXPECT_EQ(second(2, 16, {kFirst, shared}), 2 * kMiB);
  EXPECT_EQ(second(1, 2, {kFirst, shared}), 2 * kMiB);  // of two threads in all
  EXPECT_EQ(second(4, 2, {kFirst, shared}), 4 * kMiB);
}

// Where only its caches say which threads share a core, those of the first one do.
TEST(TileSums, ReckonWithThreadsThatShareTheFirstCache) {
  const Cache code{1, instructions, 1, 8, 1, 64, 64}, shared{2, unified, 8, 16, 1, 64, 4096};
  EXPECT_EQ(second(0, 0, {kFirst, kSecond}), 2 * kMiB);
  EXPECT_EQ(second(0, 0, {code, kFirst, shared}), kMiB);
}

TEST(TileSums, ReckonWithHalfAMebibyteWhereTheProcessorSaysNothing) {
  EXPECT_EQ(second(0, 0, {}), kMiB / 2);
  EXPECT_EQ(second(2, 112, {}), kMiB / 2);
  EXPECT_EQ(second(2, 112, {kFirst, kThird}), kMiB / 2);
}

}  // namespace
}  // namespace pal
