// Places on a skyline, and rounds of them.
#include "memory/place/rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "memory/place/buffers/load.h"
#include "memory/place/place.h"
#include "memory/place/skyline.h"
#include "tests/support/lifetimes.h"
#include "tests/support/perfect_packing.h"

namespace pal {
namespace {

std::vector<int32_t> as_they_are(size_t count) {
  std::vector<int32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<Buffer> random_buffers(uint64_t seed, int count) {
  std::mt19937_64 random(seed);
  std::vector<Buffer> out;
  for (int i = 0; i < count; ++i) {
    const int64_t lower = int64_t(random() % 40);
    out.push_back({lower, lower + 1 + int64_t(random() % 12), 1 + int64_t(random() % 30)});
  }
  return out;
}

// The same in plain words: the heights at all times, the lowest stretch of them, and the first
// buffer in order that lives within it.
std::vector<int64_t> laid_plainly(const std::vector<Buffer>& buffers,
                                  const std::vector<int32_t>& order) {
  int64_t begin = INT64_MAX, end = 0;
  for (const Buffer& b : buffers) begin = std::min(begin, b.lower), end = std::max(end, b.upper);
  std::vector<int64_t> height(size_t(end), INT64_MAX), offset(buffers.size(), -1);
  std::fill(height.begin() + begin, height.end(), 0);
  for (size_t left = buffers.size(); left > 0;) {
    const auto lowest = std::min_element(height.begin(), height.end());
    const int64_t from = lowest - height.begin(), level = *lowest;
    int64_t to = from;
    while (to < end && height[size_t(to)] == level) ++to;
    const auto found = std::find_if(order.begin(), order.end(), [&](int32_t i) {
      const Buffer& b = buffers[size_t(i)];
      return offset[size_t(i)] < 0 && b.lower >= from && b.upper <= to;
    });
    if (found != order.end()) {
      const Buffer& b = buffers[size_t(*found)];
      offset[size_t(*found)] = level;
      std::fill(height.begin() + b.lower, height.begin() + b.upper, level + b.size);
      --left;
      continue;
    }
    const int64_t before = from > 0 ? height[size_t(from) - 1] : INT64_MAX;
    const int64_t after = to < end ? height[size_t(to)] : INT64_MAX;
    std::fill(height.begin() + from, height.begin() + to, std::min(before, after));
  }
  return offset;
}

TEST(Skyline, FillsTheLowestPlaceAsIfTimeWereALineOfHeights) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::vector<Buffer> buffers = random_buffers(seed, 1 + int(seed % 40));
    std::vector<int32_t> order = as_they_are(buffers.size());
    std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
    Skyline skyline(buffers);
    int64_t looks = INT64_MAX;
    const Placement p = skyline.run(order, looks);
    ASSERT_EQ(p.offset, laid_plainly(buffers, order)) << "seed " << seed;
    check_placement(buffers, p.offset);
    int64_t height = 0;
    for (size_t i = 0; i < buffers.size(); ++i) {
      height = std::max(height, p.offset[i] + buffers[i].size);
    }
    ASSERT_EQ(p.height, height);
    EXPECT_EQ(skyline.run(order, looks).offset, p.offset) << "a second run begins anew";
  }
}

TEST(Skyline, GivesUpWhereItHasLookedAtTooMany) {
  const std::vector<Buffer> buffers = random_buffers(1, 30);
  const std::vector<int32_t> order = as_they_are(buffers.size());
  Skyline skyline(buffers);
  int64_t left = 10'000;
  const Placement p = skyline.run(order, left);
  const int64_t taken = 10'000 - left;
  EXPECT_GE(taken, 30);
  for (int64_t looks : {taken - 1, int64_t(20), int64_t(0)}) {
    EXPECT_EQ(skyline.run(order, looks).height, INT64_MAX);
    EXPECT_LT(looks, 0);
  }
  int64_t enough = taken;
  EXPECT_EQ(skyline.run(order, enough).height, p.height);
  EXPECT_EQ(enough, 0);
  EXPECT_EQ(Skyline({}).run({}, enough).height, 0);
}

Placement none() {
  Placement p;
  p.height = INT64_MAX;
  return p;
}

TEST(Rounds, AreNeverWorseWithMore) {
  int better = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<Buffer> buffers = test::perfect_packing(seed, 150, 1000, 1 << 20);
    int64_t before = INT64_MAX;
    for (int rounds : {1, 4, 16, 17, 32, 64}) {
      Placement p = none();
      try_rounds(buffers, 0, rounds, {}, p);
      check_placement(buffers, p.offset);
      ASSERT_LE(p.height, before) << "seed " << seed << ", rounds " << rounds;
      better += p.height < before && rounds > 1;
      before = p.height;
    }
  }
  EXPECT_GT(better, 20);
}

TEST(Rounds, EndWhereItIsEnough) {
  const std::vector<Buffer> buffers = test::perfect_packing(3, 150, 1000, 1 << 20);
  Placement one = none(), all = none(), same = none();
  try_rounds(buffers, 0, 1, {}, one);
  try_rounds(buffers, 0, 64, {}, all);
  ASSERT_LT(all.height, one.height);
  try_rounds(buffers, one.height, 64, {}, same);
  EXPECT_EQ(same.offset, one.offset);
  const Placement before = same;
  try_rounds(buffers, same.height, 64, {}, same);  // it was enough
  try_rounds(buffers, 0, 0, {}, same);
  try_rounds(buffers, 0, 64, Clock::now(), same);
  EXPECT_EQ(same.offset, before.offset);
}

TEST(Rounds, HalveWhatTheOrdersOfFirstFitLoseAtLeast) {
  double orders = 0, rounds = 0;  // above the bound
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const std::vector<Buffer> buffers = test::training_lifetimes(seed, 400, {.chopped = true});
    const Placement without = place(buffers, {.effort = {.rounds = 0, .nodes = 0}});
    const Placement with = place(buffers, {.effort = {.nodes = 0}});
    check_placement(buffers, with.offset);
    ASSERT_LE(with.height, without.height) << "seed " << seed;
    const auto bound = double(with.lower_bound);
    orders += double(without.height) / bound - 1, rounds += double(with.height) / bound - 1;
  }
  EXPECT_GT(orders, 0.2);
  EXPECT_LT(rounds, orders / 2);
}

}  // namespace
}  // namespace pal
