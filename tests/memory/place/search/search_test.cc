// The search for placements, and place() as a whole, on problems whose optimum is known.
#include "memory/place/search/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "memory/place/first_fit.h"
#include "memory/place/place.h"
#include "tests/support/lifetimes.h"
#include "tests/support/perfect_packing.h"

namespace pal {
namespace {

// Small, with sizes that leave holes: the bound is often out of reach.
std::vector<Buffer> awkward(uint64_t seed, int n) {
  std::mt19937_64 random(seed);
  std::vector<Buffer> out;
  for (int i = 0; i < n; ++i) {
    const int64_t lower = int64_t(random() % 6);
    out.push_back({lower, lower + 1 + int64_t(random() % 4), 1 + int64_t(random() % 5)});
  }
  return out;
}

// The least height over every first-fit order: an optimal placement, pushed down and sorted by
// offset, is the first-fit placement of its own order or better.
int64_t least_height_of_orders(const std::vector<Buffer>& buffers) {
  std::vector<int32_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  int64_t least = INT64_MAX;
  do {
    least = std::min(least, first_fit(buffers, order, least).height);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

TEST(PlaceSearch, FindsTheOptimumAndProvesThatNothingIsBelow) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const auto buffers = awkward(seed, 7);
    const int64_t least = least_height_of_orders(buffers);
    const SearchResult at = search_placement(buffers, least, {});
    ASSERT_EQ(at.answer, SearchResult::kFound) << "seed " << seed;
    check_placement(buffers, at.offset);
    for (size_t i = 0; i < buffers.size(); ++i) ASSERT_LE(at.offset[i] + buffers[i].size, least);
    ASSERT_EQ(search_placement(buffers, least - 1, {}).answer, SearchResult::kInfeasible)
        << "seed " << seed;
    ASSERT_EQ(search_placement(buffers, least + 1, {}).answer, SearchResult::kFound);
  }
}

TEST(PlaceSearch, ProvesThatEveryPlacementNeedsAHole) {
  const std::vector<Buffer> buffers{{4, 7, 3}, {2, 4, 2}, {6, 8, 3}, {2, 5, 1}, {3, 4, 2},
                                    {0, 2, 1}, {5, 6, 2}, {3, 6, 1}, {0, 3, 3}};
  ASSERT_EQ(lower_bound_of(buffers), 6);
  ASSERT_EQ(least_height_of_orders(buffers), 7);
  EXPECT_EQ(search_placement(buffers, 6, {}).answer, SearchResult::kInfeasible);
  EXPECT_EQ(search_placement(buffers, 7, {}).answer, SearchResult::kFound);
  const Placement p = place(buffers);
  EXPECT_EQ(p.height, 7);
  EXPECT_EQ(p.lower_bound, 6);
  EXPECT_EQ(p.proven, 7);
  EXPECT_TRUE(p.optimal());
}

// Few different times: hopeless for depth-first search.
TEST(PlaceSearch, SolvesPackingsOfFewTimes) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const auto buffers = test::perfect_packing(seed, 300, 40, 1 << 20);
    SearchLimits limits;
    limits.nodes = 3'000'000;
    const SearchResult r = search_placement(buffers, 1 << 20, limits);
    ASSERT_EQ(r.answer, SearchResult::kFound) << "seed " << seed;
    check_placement(buffers, r.offset);
    for (size_t i = 0; i < buffers.size(); ++i) ASSERT_LE(r.offset[i] + buffers[i].size, 1 << 20);
  }
}

TEST(PlaceSearch, SolvesPerfectPackings) {
  for (int n : {150, 300, 450}) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const auto buffers = test::perfect_packing(seed, n, 1000, 1 << 20);
      ASSERT_EQ(buffers.size(), size_t(n));
      ASSERT_EQ(lower_bound_of(buffers), 1 << 20);
      const Placement p = place(buffers, {.effort = {.nodes = 3'000'000}});
      check_placement(buffers, p.offset);
      EXPECT_EQ(p.height, 1 << 20) << "n " << n << ", seed " << seed;
      EXPECT_TRUE(p.optimal());
    }
  }
}

TEST(PlaceSearch, GivesUpAtItsLimits) {
  const auto buffers = test::perfect_packing(1, 450, 100, 1000);
  SearchLimits few;
  few.nodes = 3;
  EXPECT_EQ(search_placement(buffers, 1000, few).answer, SearchResult::kGaveUp);
  SearchLimits late;
  late.deadline = std::chrono::steady_clock::now();
  EXPECT_EQ(search_placement(buffers, 1000, late).answer, SearchResult::kGaveUp);
}

TEST(PlaceSearch, EmptyProblemsFit) {
  EXPECT_EQ(search_placement({}, 0, {}).answer, SearchResult::kFound);
  const std::vector<Buffer> never{{3, 3, 5}, {0, 2, 0}};
  EXPECT_EQ(search_placement(never, 0, {}).offset, (std::vector<int64_t>{0, 0}));
}

TEST(Place, StopsAtEnough) {
  const auto buffers = test::perfect_packing(2, 200, 1000, 1 << 20);
  const Placement greedy = place(buffers, {.effort = {.rounds = 0, .nodes = 0}});
  EXPECT_GT(greedy.height, 1 << 20);
  EXPECT_STREQ(place(buffers, {.enough = greedy.height}).order, greedy.order);
  EXPECT_EQ(place(buffers).height, 1 << 20) << "the default search solves this one";
}

TEST(Place, LittleToWinIsNotSearchedForLong) {
  const auto buffers = test::perfect_packing(2, 200, 1000, 1 << 20);
  const Placement greedy = place(buffers, {.effort = {.rounds = 0, .nodes = 0}});
  const int64_t to_win = greedy.height - (1 << 20);
  const PlaceEffort little{.rounds = 0, .bytes_a_node = to_win},
      much{.rounds = 0, .bytes_a_node = 1};
  EXPECT_EQ(place(buffers, {.effort = little}).height, greedy.height) << "one node";
  EXPECT_EQ(place(buffers, {.effort = much}).height, 1 << 20) << to_win << " nodes";
  const Placement asked = place(buffers, {.enough = (1 << 20) + 64, .effort = little});
  EXPECT_LE(asked.height, (1 << 20) + 64) << "a height that is asked for is worth all nodes";
}

TEST(Place, StretchesOfTimeArePlacedOnTheirOwn) {
  auto buffers = test::perfect_packing(3, 150, 1000, 1 << 20);
  for (Buffer b : test::perfect_packing(4, 150, 1000, 1 << 20)) {
    b.lower += 1000, b.upper += 1000;
    buffers.push_back(b);
  }
  const Placement p = place(buffers);
  check_placement(buffers, p.offset);
  EXPECT_EQ(p.height, 1 << 20);
}

// Cool buffers beside a hot section: too many for a search of everything.
TEST(Place, TheHotSectionsAreSearchedAndTheRestLaidAround) {
  auto buffers = test::perfect_packing(5, 150, 1000, 1 << 20);
  std::mt19937_64 random(5);
  buffers.push_back({999, 1001, 0});  // joins nothing: no size
  buffers.push_back({0, 4000, 64});
  for (int i = 0; i < 4000; ++i) {
    const int64_t lower = 1000 + int64_t(random() % 2900);
    const int64_t upper = lower + 1 + int64_t(random() % 50);
    buffers.push_back({lower, upper, 64 * (1 + int64_t(random() % 40))});
  }
  const Placement p = place(buffers, {.effort = {.rounds = 0}});
  check_placement(buffers, p.offset);
  EXPECT_GT(place(buffers, {.effort = {.rounds = 0, .nodes = 0}}).height, (1 << 20) + 64);
  EXPECT_EQ(p.height, (1 << 20) + 64);
}

TEST(Place, TheDefaultIsDeterministic) {
  const auto buffers = test::perfect_packing(6, 450, 100, 1000);  // hard: the search gives up
  const Placement a = place(buffers), b = place(buffers);
  EXPECT_EQ(a.offset, b.offset);
  check_placement(buffers, a.offset);
}

TEST(Place, TrainingLifetimesComeWithinHalfAPercent) {
  for (bool chopped : {false, true}) {
    const auto buffers = test::training_lifetimes(1, 20000, {.chopped = chopped});
    ASSERT_EQ(buffers.size(), 20000u);
    const Placement p = place(buffers);
    check_placement(buffers, p.offset);
    EXPECT_LE(double(p.height), 1.005 * double(p.lower_bound)) << "chopped " << chopped;
  }
}

}  // namespace
}  // namespace pal
