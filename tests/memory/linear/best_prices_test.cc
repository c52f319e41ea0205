// Prices of small programs, by hand.
#include "memory/linear/best_prices.h"

#include <gtest/gtest.h>

namespace pal::test {
namespace {

TEST(Linear, BestPrices) {
  // One row: lines 1 + z and 3 - z meet at z = 1, at 2.
  const BestPrices one = best_prices({{1, 3}, {{1}, {-1}}}, 100, false);
  EXPECT_NEAR(one.value, 2, 1e-12);
  EXPECT_NEAR(one.z[0], 1, 1e-12);
  // No answer is possible: the price is as high as it may be.
  EXPECT_NEAR(best_prices({{1}, {{0.5}}}, 100, false).value, 51, 1e-9);
  // Together they sum to one: the better row has all of it.
  const BestPrices two = best_prices({{1}, {{0.25, 0.5}}}, 1, true);
  EXPECT_NEAR(two.value, 1.5, 1e-12);
  EXPECT_NEAR(two.z[1], 1, 1e-12);
  // Nothing to gain, and no rows.
  EXPECT_EQ(best_prices({{1, 2}, {{-1}, {1}}}, 100, false).value, 1);
  EXPECT_EQ(best_prices({{2, 1}, {{}, {}}}, 100, false).value, 1);
}

}  // namespace
}  // namespace pal::test
