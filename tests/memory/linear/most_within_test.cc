// Corners of small linear programs, by hand and against all corners tried.
#include "memory/linear/most_within.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/memory/share/shapes.h"

namespace pal::test {
namespace {

TEST(Linear, ByHand) {
  const std::vector<Limit> limits{{{1, 1}, 4}, {{1, 3}, 6}, {{1, 0}, 3}};
  const std::vector<double> x = most_within(limits, {3, 5});
  EXPECT_NEAR(x[0], 3, 1e-12);
  EXPECT_NEAR(x[1], 1, 1e-12);
  EXPECT_EQ(most_within(limits, {-1, -1}), (std::vector<double>{0, 0}));
  EXPECT_THROW(most_within({{{1, -1}, 1}}, {1, 1}), ProgramError);
}

// In the plane the best of all points in which two limits meet.
TEST(Linear, IsTheBestOfAllCorners) {
  Random random(8);
  for (int round = 0; round < 500; ++round) {
    std::vector<Limit> limits{{{1, 0}, 5}, {{0, 1}, 5}};
    for (int i = 0; i < 6; ++i) {
      limits.push_back(
          {{double(random.below(11)) - 3, double(random.below(11)) - 3}, double(random.below(20))});
    }
    const std::vector<double> gain{double(random.below(5)) + 1, double(random.below(5)) + 1};
    std::vector<Limit> all = limits;
    all.push_back({{-1, 0}, 0}), all.push_back({{0, -1}, 0});
    double best = 0;
    for (const Limit& a : all) {
      for (const Limit& b : all) {
        const double det = a.part[0] * b.part[1] - a.part[1] * b.part[0];
        if (std::abs(det) < 1e-9) continue;
        const double x = (a.most * b.part[1] - a.part[1] * b.most) / det;
        const double y = (a.part[0] * b.most - a.most * b.part[0]) / det;
        const bool within = std::all_of(all.begin(), all.end(), [&](const Limit& l) {
          return l.part[0] * x + l.part[1] * y <= l.most + 1e-9;
        });
        if (within) best = std::max(best, gain[0] * x + gain[1] * y);
      }
    }
    const std::vector<double> x = most_within(limits, gain);
    EXPECT_NEAR(gain[0] * x[0] + gain[1] * x[1], best, 1e-9) << round;
  }
}

}  // namespace
}  // namespace pal::test
