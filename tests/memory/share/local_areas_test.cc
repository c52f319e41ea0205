// Buffers that lie apart: placements stay valid, and nobody waits for them.
#include "memory/share/local_areas.h"

#include <gtest/gtest.h>

#include "memory/share/corun_plan.h"
#include "tests/memory/share/shapes.h"

namespace pal::test {
namespace {

// Some are workspaces and gradient maps.
RandomCircle circle_with_roles(Random& random) {
  RandomCircle r = random_circle(random, size_t(random.between(2, 4)));
  for (auto& shape : r.shapes) {
    for (SharableBuffer& b : shape->buffers) {
      if (random.one_in(3)) b.role = random.one_in(2) ? Role::workspace : Role::gradient_map;
    }
  }
  return r;
}

TEST(LocalAreas, ArePlacedApart) {
  Random random(31);
  int64_t local = 0, fewer = 0;
  for (int round = 0; round < 300; ++round) {
    const RandomCircle r = circle_with_roles(random);
    const PoolPlacement placement = place_with_local(r.circle);
    ASSERT_NO_THROW(check_placement(r.circle, placement)) << round;
    ASSERT_GE(placement.height, placement.lower_bound);
    const auto& jobs = r.circle.jobs;
    for (size_t j = 0; j < jobs.size(); ++j) {
      for (size_t i = 0; i < jobs[j].shape->buffers.size(); ++i) {
        const SharableBuffer& b = jobs[j].shape->buffers[i];
        EXPECT_EQ(placement.offset[j][i] % 64, 0);
        if (!may_be_local(b)) continue;
        ++local;
        const int64_t begin = placement.offset[j][i], end = begin + b.bytes;
        for (size_t o = 0; o < jobs.size(); ++o) {
          for (size_t k = 0; o != j && k < jobs[o].shape->buffers.size(); ++k) {
            const int64_t at = placement.offset[o][k];
            EXPECT_TRUE(end <= at || at + jobs[o].shape->buffers[k].bytes <= begin);
          }
        }
      }
    }
    const auto count = [](const CircleWaits& waits) {
      size_t sum = 0;
      for (const auto& job : waits) {
        for (const auto& step : job) sum += step.size();
      }
      return sum;
    };
    fewer += count(waits_of(r.circle, placement)) < count(waits_of(r.circle, place_on(r.circle)));
  }
  EXPECT_GT(local, 500);
  EXPECT_GT(fewer, 100);
}

// Seldom: what lives for a moment only is seldom waited for long. With it more bytes are never
// slower either.
TEST(LocalAreas, AreChosenWhereTheyArePredictedToBeFaster) {
  Random random(32);
  int chosen = 0;
  for (int round = 0; round < 40; ++round) {
    std::vector<StepShape> shapes;
    for (int j = 0; j < 2; ++j) {
      shapes.push_back(random_shape(
          random, {.nodes = random.between(4, 10), .buffers = 10, .bytes = 1024, .ticks = 1000}));
      for (SharableBuffer& b : shapes.back().buffers) {
        if (b.life.end - b.life.begin < 4) b.role = Role::workspace;
      }
    }
    CorunSearch search({&shapes[0], &shapes[1]});
    double last = 0;
    for (int i = 0; i <= 10; ++i) {
      const auto way = search.within(search.least_bytes() +
                                     (search.most_bytes() - search.least_bytes()) * i / 10);
      EXPECT_GE(way->total, last);
      last = way->total;
      chosen += way->has_local;
    }
  }
  EXPECT_GT(chosen, 0);
}

}  // namespace
}  // namespace pal::test
