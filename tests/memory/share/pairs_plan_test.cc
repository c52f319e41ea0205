// Pairs of jobs, each with a part of the budget.
#include "memory/share/pairs_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/memory/share/shapes.h"

namespace pal::test {
namespace {

using Shapes = std::vector<const StepShape*>;

std::vector<StepShape> random_jobs(Random& random, int64_t count) {
  std::vector<StepShape> shapes;
  for (int64_t j = 0; j < count; ++j) {
    shapes.push_back(random_shape(
        random, {.nodes = random.between(3, 10), .buffers = 12, .bytes = 1024, .ticks = 1000}));
  }
  return shapes;
}

Shapes all_of(const std::vector<StepShape>& shapes) {
  Shapes out;
  for (const StepShape& shape : shapes) out.push_back(&shape);
  return out;
}

int64_t own_bytes(const Shapes& shapes) {
  int64_t sum = 0;
  for (const StepShape* shape : shapes) sum += shape->own_bytes;
  return sum;
}

// Each job once; each group's storages within its part.
void check_groups(const Shapes& shapes, const CorunWay& way) {
  ASSERT_EQ(way.kind, CorunWay::Kind::groups);
  std::vector<JobId> all;
  int64_t bytes = 0;
  for (size_t g = 0; g < way.groups.size(); ++g) {
    const CorunWay& group = way.groups[g];
    EXPECT_LE(way.members[g].size(), 2u);
    EXPECT_EQ(group.pool_bytes % 64, 0);
    bytes += group.pool_bytes;
    for (size_t i = 0; i < way.members[g].size(); ++i) {
      const JobId j = way.members[g][i];
      all.push_back(j);
      for (size_t b = 0; b < shapes[size_t(j)]->buffers.size() && !group.placement.offset.empty();
           ++b) {
        EXPECT_LE(group.placement.offset[i][b] + shapes[size_t(j)]->buffers[b].bytes,
                  group.pool_bytes);
      }
    }
  }
  EXPECT_EQ(bytes, way.pool_bytes);
  std::sort(all.begin(), all.end());
  for (size_t j = 0; j < shapes.size(); ++j) EXPECT_EQ(all[j], JobId(j));
  EXPECT_EQ(all.size(), shapes.size());
}

TEST(PairsPlan, MoreBytesAreNeverSlowerAndTheBetterWins) {
  Random random(5);
  int pairs_win = 0, joint_wins = 0;
  for (int round = 0; round < 6; ++round) {
    const std::vector<StepShape> steps = random_jobs(random, 3 + round % 2);
    const Shapes shapes = all_of(steps);
    CorunSearch joint(shapes);
    PairsSearch pairs(shapes);
    double last = 0;
    for (int i = 0; i <= 6; ++i) {
      const int64_t budget =
          joint.least_bytes() + (joint.most_bytes() - joint.least_bytes()) * i / 6;
      const auto best = best_way_within(shapes, budget);
      ASSERT_TRUE(best);
      EXPECT_GE(best->total, last);
      last = best->total;
      EXPECT_LE(own_bytes(shapes) + best->pool_bytes, budget);
      const auto in_pairs = pairs.within(budget);
      EXPECT_EQ(best->total, std::max(in_pairs ? in_pairs->total : 0, joint.within(budget)->total));
      (best->kind == CorunWay::Kind::groups ? pairs_win : joint_wins)++;
      if (in_pairs) check_groups(shapes, *in_pairs);
      const auto beside = pairs.within(budget, CorunGoal::total, true);
      for (size_t g = 0; beside && g < beside->groups.size(); ++g) {
        EXPECT_NE(beside->groups[g].kind, CorunWay::Kind::turns);
      }
      const auto fair = pairs.within(budget, CorunGoal::fair);
      const std::vector<double> turns = rates_in_turns(shapes);
      for (size_t j = 0; fair && j < shapes.size(); ++j) EXPECT_GE(fair->rate[j], turns[j]);
    }
  }
  EXPECT_GT(pairs_win, 0);
  EXPECT_GT(joint_wins, 0);
}

// Jobs that leave each other alone but for their bytes, all of which they hold all the time: with
// room for everything nobody waits, and with room for one of each pair they are in turns.
TEST(PairsPlan, WhereThereIsRoomForAllEveryPairHasWhatItCanUse) {
  for (const size_t count : {3, 4, 6}) {
    StepShape step = step_like({.work_ms = 1, .units = 0.1});
    step.buffers.push_back({{0, step.moments()}, 640, {}});
    step.alone_bytes = 640;
    const Shapes shapes(count, &step);
    PairsSearch pairs(shapes);
    const auto roomy = pairs.within(int64_t(count) * 640);
    ASSERT_TRUE(roomy);
    EXPECT_NEAR(roomy->total, double(count), 1e-6);
    const size_t groups = (count + 1) / 2;
    const auto tight = pairs.within(int64_t(groups) * 640);
    ASSERT_TRUE(tight);
    EXPECT_NEAR(tight->total, double(groups), 0.1);
    EXPECT_FALSE(pairs.within(int64_t(groups) * 640 - 64));
  }
}

// Of six jobs the first can be with five others, then three: fifteen ways; of five one is alone.
TEST(PairsPlan, EveryWayToPairJobs) {
  Random random(8);
  for (const int64_t count : {3, 5, 6}) {
    const std::vector<StepShape> steps = random_jobs(random, count);
    const Shapes shapes = all_of(steps);
    const auto way = PairsSearch(shapes).within(INT64_MAX / 2);
    ASSERT_TRUE(way);
    check_groups(shapes, *way);
    EXPECT_EQ(way->groups.size(), size_t(count + 1) / 2);
  }
  const std::vector<StepShape> two = random_jobs(random, 2);
  EXPECT_FALSE(PairsSearch(all_of(two)).within(INT64_MAX / 2));
  const std::vector<StepShape> seven = random_jobs(random, 7);
  EXPECT_FALSE(PairsSearch(all_of(seven)).within(INT64_MAX / 2));
}

}  // namespace
}  // namespace pal::test
