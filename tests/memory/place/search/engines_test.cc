// Each engine of placement on its own: against exhaustive search, and on packings with no hole.
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string_view>

#include "memory/place/first_fit.h"
#include "memory/place/place.h"
#include "memory/place/search/canonical.h"
#include "memory/place/search/columns.h"
#include "tests/support/perfect_packing.h"

namespace pal {
namespace {

std::vector<Buffer> tiny(uint64_t seed, int n) {
  std::mt19937_64 random(seed);
  std::vector<Buffer> out;
  for (int i = 0; i < n; ++i) {
    const int64_t lower = int64_t(random() % 5);
    out.push_back({lower, lower + 1 + int64_t(random() % 3), 1 + int64_t(random() % 3)});
  }
  return out;
}

// Whether the buffers from i on fit beside those before, trying every offset.
bool fits(const std::vector<Buffer>& b, int64_t capacity, std::vector<int64_t>& at, size_t i = 0) {
  if (i == b.size()) return true;
  for (int64_t offset = 0; offset + b[i].size <= capacity; ++offset) {
    const bool free = std::none_of(at.begin(), at.begin() + long(i), [&](const int64_t& other) {
      const Buffer& o = b[size_t(&other - at.data())];
      return o.lower < b[i].upper && b[i].lower < o.upper && other < offset + b[i].size &&
             offset < other + o.size;
    });
    at[i] = offset;
    if (free && fits(b, capacity, at, i + 1)) return true;
  }
  return false;
}

int64_t least_height_that_fits(const std::vector<Buffer>& buffers) {
  std::vector<int64_t> at(buffers.size());
  int64_t height = lower_bound_of(buffers);
  while (!fits(buffers, height, at)) ++height;
  return height;
}

int64_t height_of(const std::vector<Buffer>& buffers, const std::vector<int64_t>& offset) {
  check_placement(buffers, offset);
  int64_t height = 0;
  for (size_t i = 0; i < buffers.size(); ++i)
    height = std::max(height, offset[i] + buffers[i].size);
  return height;
}

TEST(PlaceEngines, CanonicalPlacementsAgreeWithExhaustiveSearch) {
  int above_bound = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    auto buffers = tiny(seed, 4 + int(seed % 5));
    if (seed % 50 == 0) {  // these need a hole
      buffers = {{4, 7, 3}, {2, 4, 2}, {6, 8, 3}, {2, 5, 1}, {3, 4, 2},
                 {0, 2, 1}, {5, 6, 2}, {3, 6, 1}, {0, 3, 3}};
      for (Buffer& b : buffers) b.size *= 1 + int64_t(seed / 200);
    }
    const int64_t least = least_height_that_fits(buffers);
    above_bound += least > lower_bound_of(buffers);
    CanonicalSearch at(buffers, least, {}), below(buffers, least - 1, {});
    for (const char* keys : {"twa", "taw", "owz", "s", "e"}) {
      ASSERT_EQ(at.run(keys, 100'000), SearchResult::kFound) << "seed " << seed << ' ' << keys;
      ASSERT_EQ(height_of(buffers, at.offset()), least) << "seed " << seed;
      ASSERT_EQ(below.run(keys, 100'000), SearchResult::kInfeasible) << "seed " << seed;
    }
  }
  EXPECT_GT(above_bound, 5) << "or there is nothing to prove";
}

// Parts that are solved and then taken back with another that was not: offsets must not be stale.
TEST(PlaceEngines, CanonicalPlacementsOfManyBuffersDoNotOverlap) {
  int found = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<Buffer> buffers;
    for (int i = 0; i < 60; ++i) {
      const int64_t lower = int64_t(random() % 40) + (i % 2 ? 100 : 0);
      buffers.push_back({lower, lower + 1 + int64_t(random() % 12), 1 + int64_t(random() % 20)});
    }
    const int64_t capacity = lower_bound_of(buffers) * 103 / 100;
    CanonicalSearch search(buffers, capacity, {});
    for (const char* keys : {"twa", "wat", "awt"}) {
      if (search.run(keys, 3000) != SearchResult::kFound) continue;
      ++found;
      ASSERT_LE(height_of(buffers, search.offset()), capacity) << "seed " << seed;
    }
  }
  EXPECT_GT(found, 60);
}

TEST(PlaceEngines, CanonicalSearchKeepsToItsLimits) {
  const auto buffers = test::perfect_packing(1, 450, 100, 1000);
  CanonicalSearch few(buffers, 1000, {});
  EXPECT_EQ(few.run("twa", 50), SearchResult::kGaveUp);
  EXPECT_LT(few.nodes(), 100);
  CanonicalSearch late(buffers, 1000, std::chrono::steady_clock::now());
  EXPECT_EQ(late.run("twa", INT64_MAX), SearchResult::kGaveUp);
}

// As many levels as buffers: one spans all others, so that they never fall into parts.
void* search_deeply(void* answer) {
  constexpr int64_t kCount = 2000;
  std::vector<Buffer> buffers{{0, kCount, 1}};
  for (int64_t i = 0; i < kCount; ++i) buffers.push_back({i, i + 1, 2});
  CanonicalSearch search(buffers, 3, {});
  *static_cast<SearchResult::Answer*>(answer) = search.run("z", INT64_MAX);
  return nullptr;
}

TEST(PlaceEngines, CanonicalSearchNeedsNoDeepStack) {
  SearchResult::Answer answer = SearchResult::kGaveUp;
  pthread_attr_t small;
  pthread_attr_init(&small);
  ASSERT_EQ(pthread_attr_setstacksize(&small, 256 << 10), 0);
  pthread_t thread{};
  ASSERT_EQ(pthread_create(&thread, &small, search_deeply, &answer), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&small);
  EXPECT_EQ(answer, SearchResult::kFound);
}

TEST(PlaceEngines, ThePortfolioIsNeverBelowTheOptimumAndSaysSoTruthfully) {
  int optimal = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const auto buffers = tiny(1000 + seed, 4 + int(seed % 5));
    const int64_t least = least_height_that_fits(buffers);
    const Placement p = place(buffers);
    ASSERT_EQ(height_of(buffers, p.offset), p.height);
    ASSERT_LE(p.lower_bound, p.proven);
    ASSERT_LE(p.proven, least) << "seed " << seed;
    ASSERT_EQ(p.height, least) << "seed " << seed;
    optimal += p.optimal();
  }
  EXPECT_EQ(optimal, 400) << "tiny problems are proven";
}

TEST(PlaceEngines, TheSweepIsFirstFitByStart) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    auto buffers = tiny(seed, 40);
    for (Buffer& b : buffers) b.size *= 1 + int64_t(seed % 7);
    std::vector<int32_t> order(buffers.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int32_t i, int32_t j) {
      const Buffer &a = buffers[size_t(i)], &b = buffers[size_t(j)];
      if (a.lower != b.lower) return a.lower < b.lower;
      return a.size != b.size ? a.size > b.size : i < j;
    });
    const Placement sweep = place_by_start(buffers), fit = first_fit(buffers, order);
    ASSERT_EQ(sweep.offset, fit.offset) << "seed " << seed;
    ASSERT_EQ(sweep.height, fit.height);
  }
}

TEST(PlaceEngines, FullPackingsAreKnown) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto buffers = test::perfect_packing(seed, 6, 5, 6);
    ASSERT_TRUE(fills(buffers, 6));
    EXPECT_FALSE(fills(buffers, 7));
    const SearchResult r = ColumnSearch(buffers).run(64, seed, {});
    ASSERT_EQ(r.answer, SearchResult::kFound) << "seed " << seed;
    ASSERT_EQ(height_of(buffers, r.offset), 6);
  }
}

TEST(PlaceEngines, ColumnsKeepToTheirLimits) {
  const auto buffers = test::perfect_packing(1, 450, 100, 1000);
  SearchLimits few;
  few.nodes = 500;
  const SearchResult r = ColumnSearch(buffers).run(64, 0, few);
  EXPECT_EQ(r.answer, SearchResult::kGaveUp);
  EXPECT_LT(r.nodes, 5000);
}

TEST(PerfectPacking, EveryShapeFillsItsRectangle) {
  for (const test::PackingShape& shape : test::packing_shapes()) {
    for (int n : {150, 450}) {
      const auto buffers = test::perfect_packing(shape, n, 1);
      ASSERT_EQ(buffers.size(), size_t(n)) << shape.name;
      EXPECT_EQ(lower_bound_of(buffers), shape.height) << shape.name;
      int64_t area = 0;
      for (const Buffer& b : buffers) area += b.size * (b.upper - b.lower);
      EXPECT_EQ(area, shape.steps * shape.height) << shape.name;
      EXPECT_EQ(buffers, test::perfect_packing(shape, n, 1)) << "the same seed";
    }
  }
}

// A budget is counted in nodes, so that a plan is the same on every machine: the way that a search
// takes is part of what it promises. Who changes it knowingly writes down what it takes then.
TEST(PlaceEngines, SearchesTakeAsManyNodesAsEver) {
  std::vector<int64_t> canonical, columns;
  for (const char* keys : {"twa", "taw", "owz", "sz", "e"}) {
    int64_t nodes = 0;
    for (const test::PackingShape& shape : test::packing_shapes()) {
      const std::vector<Buffer> buffers = test::perfect_packing(shape, 40, 3);
      CanonicalSearch search(buffers, shape.height, {});
      const SearchResult::Answer answer = search.run(keys, 200);
      nodes += search.nodes() + 1000 * (answer == SearchResult::kFound);
    }
    canonical.push_back(nodes);
  }
  for (const uint64_t seed : {0, 1, 2, 3}) {
    int64_t nodes = 0;
    for (const test::PackingShape& shape : test::packing_shapes()) {
      nodes += ColumnSearch(test::perfect_packing(shape, 60, 3)).run(4, seed, {}).nodes;
    }
    columns.push_back(nodes);
  }
  EXPECT_EQ(canonical, (std::vector<int64_t>{9027, 9023, 9029, 9028, 9035}));
  EXPECT_EQ(columns, (std::vector<int64_t>{1417, 2074, 1426, 2056}));
}

TEST(PlaceEngines, ColumnsFindPackingsOfEveryShape) {
  int solved = 0;
  for (const test::PackingShape& shape : test::packing_shapes()) {
    for (int n : {20, 60, 150}) {
      const auto buffers = test::perfect_packing(shape, n, 7);
      ColumnSearch search(buffers);
      for (uint64_t seed = 0; seed < 6; ++seed) {
        const SearchResult found = search.run(8, seed, {});
        ASSERT_GT(found.nodes, 0);
        if (found.answer != SearchResult::kFound) continue;
        ASSERT_EQ(height_of(buffers, found.offset), shape.height) << shape.name << " " << n;
        ++solved;
        break;
      }
    }
  }
  EXPECT_GE(solved, 25) << "of 27";
}

// Where neither sweep comes to its end, they may meet.
TEST(PlaceEngines, ColumnsMeet) {
  const auto halves = std::find_if(
      test::packing_shapes().begin(), test::packing_shapes().end(),
      [](const test::PackingShape& shape) { return shape.name == std::string_view("halves"); });
  const auto buffers = test::perfect_packing(*halves, 150, 7);
  ColumnSearch search(buffers);
  int met = 0;
  for (int width : {1, 2, 4}) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      const SearchResult found = search.run(width, seed, {});
      if (found.answer != SearchResult::kFound) continue;
      ASSERT_EQ(height_of(buffers, found.offset), halves->height);
      met += search.met();
    }
  }
  EXPECT_GT(met, 0);
}

TEST(PlaceEngines, ColumnsGiveUpWhereThereIsNoPacking) {
  // Full at all times, and yet not to be had without a hole.
  const std::vector<Buffer> buffers{{0, 3, 3}, {0, 4, 1}, {0, 4, 3}, {3, 6, 1},
                                    {3, 5, 1}, {3, 5, 1}, {4, 5, 2}, {4, 6, 1},
                                    {4, 6, 1}, {5, 7, 1}, {5, 7, 3}, {6, 7, 3}};
  ASSERT_TRUE(fills(buffers, 7));
  ASSERT_GT(least_height_that_fits(buffers), 7);
  for (uint64_t seed = 0; seed < 8; ++seed)
    EXPECT_EQ(ColumnSearch(buffers).run(64, seed, {}).answer, SearchResult::kGaveUp);
}

TEST(PlaceEngines, ExchangesAreEqualSumsWithoutSmallerOnesAmongThem) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> sizes[2];
    for (auto& side : sizes) {
      for (size_t i = 0; i < 2 + random() % 5; ++i) side.push_back(1 + int64_t(random() % 9));
    }
    auto sum = [](const std::vector<int64_t>& of, BufferSet set) {
      int64_t total = 0;
      for (size_t i = 0; i < of.size(); ++i) total += set >> i & 1 ? of[i] : 0;
      return total;
    };
    auto within = [](const Exchange& a, const Exchange& b) {
      return (a.out & ~b.out) == 0 && (a.in & ~b.in) == 0;
    };
    std::vector<Exchange> equal;
    for (BufferSet out = 1; out < BufferSet{1} << sizes[0].size(); ++out) {
      for (BufferSet in = 1; in < BufferSet{1} << sizes[1].size(); ++in) {
        if (sum(sizes[0], out) == sum(sizes[1], in)) equal.push_back({out, in});
      }
    }
    std::set<std::pair<BufferSet, BufferSet>> expected, found;
    for (const Exchange& e : equal) {
      const auto smaller = std::count_if(equal.begin(), equal.end(),
                                         [&](const Exchange& o) { return within(o, e); });
      if (smaller == 1) expected.insert({e.out, e.in});
    }
    for (const Exchange& e : find_exchanges(sizes[0], sizes[1], {})) found.insert({e.out, e.in});
    ASSERT_EQ(found, expected) << "round " << round;
  }
}

// More buffers than all sets can be listed of: the few that give way to very many are found all the
// same.
TEST(PlaceEngines, ExchangesOfFewForVeryManyAreFound) {
  std::mt19937_64 random(4);
  std::vector<int64_t> in, out{0, 0};
  for (int i = 0; i < 22; ++i) {
    in.push_back(int64_t(random() % (1 << 30)));
    out[size_t(i % 2)] += in.back();
  }
  const auto found = find_exchanges(out, in, {});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].in | found[1].in, (BufferSet{1} << 22) - 1);
  EXPECT_EQ(found[0].in & found[1].in, 0u);
}

}  // namespace
}  // namespace pal
