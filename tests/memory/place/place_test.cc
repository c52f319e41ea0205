// Placement of bare lifetimes.
#include "memory/place/place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/error.h"
#include "memory/place/first_fit.h"

namespace pal {
namespace {

std::vector<Buffer> random_buffers(uint64_t seed, size_t n, int64_t steps) {
  std::mt19937_64 random(seed);
  std::vector<Buffer> out;
  for (size_t i = 0; i < n; ++i) {
    const int64_t lower = int64_t(random() % uint64_t(steps));
    const int64_t length = 1 + int64_t(random() % (random() % 4 ? 8 : uint64_t(steps) / 2 + 1));
    out.push_back({lower, lower + length, 64 * int64_t(1 + random() % 50)});
  }
  return out;
}

TEST(Place, LowerBoundIsTheMostAliveAtOnce) {
  EXPECT_EQ(lower_bound_of(std::vector<Buffer>{}), 0);
  EXPECT_EQ(lower_bound_of(std::vector<Buffer>{{0, 2, 10}, {2, 4, 7}, {1, 3, 5}}), 15);
}

TEST(Place, AdjacentLifetimesShareBytes) {
  const std::vector<Buffer> buffers{{0, 2, 64}, {2, 4, 64}, {4, 6, 64}};
  Placement p = place(buffers);
  EXPECT_EQ(p.height, 64);
  EXPECT_TRUE(p.optimal());
}

// What is near enough ends the search, and nothing else about it.
TEST(Place, LessEffortIsNearEnough) {
  int ended = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto buffers = random_buffers(seed, 5 + seed, 10 + int64_t(seed));
    const Placement best = place(buffers);
    for (const double slack : {0.0, 0.02, 0.1}) {
      const Placement p = place(buffers, {.effort = {.slack = slack}});
      ASSERT_NO_THROW(check_placement(buffers, p.offset)) << "seed " << seed;
      const auto enough = p.lower_bound + int64_t(slack * double(p.lower_bound));
      ASSERT_GE(p.height, best.height);
      ASSERT_LE(p.height, std::max(best.height, enough)) << "seed " << seed << ", " << slack;
      if (slack == 0) {
        ASSERT_EQ(p.offset, best.offset);
      }
      ended += p.height > best.height;
    }
  }
  EXPECT_GT(ended, 0) << "no slack ever ended a search";
}

TEST(Place, EmptyLifetimesAndSizesTakeNoSpace) {
  const std::vector<Buffer> buffers{{3, 3, 640}, {0, 9, 0}, {0, 9, 64}};
  EXPECT_EQ(place(buffers).height, 64);
}

TEST(Place, FirstFitFindsTheLowestGap) {
  // 0 and 2 leave a gap of 64 at 64 once 1 is over.
  const std::vector<Buffer> buffers{{0, 9, 64}, {0, 3, 64}, {0, 9, 64}, {3, 9, 64}};
  Placement p = first_fit(buffers, std::vector<int32_t>{0, 1, 2, 3});
  EXPECT_EQ(p.offset, (std::vector<int64_t>{0, 64, 128, 64}));
}

TEST(Place, NothingOverlapsAndNothingBeatsTheBound) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const auto buffers = random_buffers(seed, 5 + seed, 10 + int64_t(seed));
    const Placement p = place(buffers);
    ASSERT_NO_THROW(check_placement(buffers, p.offset)) << "seed " << seed;
    ASSERT_GE(p.height, p.lower_bound);
    ASSERT_LE(double(p.height), 1.3 * double(p.lower_bound)) << "seed " << seed;
    int64_t height = 0;
    for (size_t i = 0; i < buffers.size(); ++i) {
      height = std::max(height, p.offset[i] + buffers[i].size);
    }
    ASSERT_EQ(height, p.height);
  }
}

TEST(Place, ManyBuffersStayCloseToTheBound) {
  const auto buffers = random_buffers(7, 20000, 20000);
  const Placement p = place(buffers);
  check_placement(buffers, p.offset);
  EXPECT_LE(double(p.height), 1.1 * double(p.lower_bound));
  EXPECT_EQ(p.offset, place(buffers).offset) << "deterministic";
}

TEST(Place, ThePortfolioIsNoWorseThanAnyOfItsOrders) {
  const auto buffers = random_buffers(3, 400, 200);
  std::vector<int32_t> by_size(buffers.size());
  for (size_t i = 0; i < by_size.size(); ++i) by_size[i] = int32_t(i);
  std::stable_sort(by_size.begin(), by_size.end(), [&](int32_t a, int32_t b) {
    return buffers[size_t(a)].size > buffers[size_t(b)].size;
  });
  EXPECT_LE(place(buffers).height, first_fit(buffers, by_size).height);
}

TEST(Place, CheckFindsPlantedOverlaps) {
  const auto buffers = random_buffers(11, 60, 30);
  const Placement p = place(buffers);
  int caught = 0, planted = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    for (size_t j = 0; j < buffers.size(); ++j) {
      if (i == j || buffers[i].lower >= buffers[j].upper || buffers[j].lower >= buffers[i].upper) {
        continue;
      }
      auto broken = p.offset;
      broken[i] = broken[j];
      ++planted;
      try {
        check_placement(buffers, broken);
      } catch (const ProgramError&) {
        ++caught;
      }
    }
  }
  EXPECT_GT(planted, 100);
  EXPECT_EQ(caught, planted);
}

}  // namespace
}  // namespace pal
