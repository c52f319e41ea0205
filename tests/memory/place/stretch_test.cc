// A stretch of time, and the time that there is for it.
#include "memory/place/stretch.h"

#include <gtest/gtest.h>

#include "memory/place/buffers/load.h"

namespace pal::test {
namespace {

// Nine large buffers, which need a hole of 10000 bytes, and later on many small ones.
std::vector<Buffer> few_large_many_small() {
  std::vector<Buffer> out{{4, 7, 30000}, {2, 4, 20000}, {6, 8, 30000}, {2, 5, 10000}, {3, 4, 20000},
                          {0, 2, 10000}, {5, 6, 20000}, {3, 6, 10000}, {0, 3, 30000}};
  for (int64_t i = 0; i < 2000; ++i) out.push_back({8, 9 + i, 1});
  return out;
}

// To choose what is searched may take as long as the first-fit orders did. The search itself proves
// here within a moment, if it begins, that no placement is as low as the most bytes alive.
TEST(Stretch, NoSearchBeginsWithLessTimeLeftThanTheOrdersTook) {
  const std::vector<Buffer> buffers = few_large_many_small();
  const int64_t enough = lower_bound_of(buffers);
  Stretch early(buffers, {});
  early.greedy(enough, {});
  EXPECT_EQ(early.proven(), 0);
  early.search(enough, {.nodes = 10'000});
  EXPECT_GT(early.proven(), enough);
  bool none = false;  // of several: one may be held up where nobody sees it
  for (int i = 0; i < 8 && !none; ++i) {
    Stretch late(buffers, {});
    const auto start = Clock::now();
    late.greedy(enough, {});
    const auto now = Clock::now();
    late.search(enough, {.deadline = now + (now - start) / 2});
    none = late.proven() == 0;
  }
  EXPECT_TRUE(none);
}

}  // namespace
}  // namespace pal::test
