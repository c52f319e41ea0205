// The best words of a row: ties, NaNs, infinities, and rows in any order against a sort.
#include "ops/losses/top_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/builder.h"
#include "core/philox.h"
#include "tests/support/eval.h"

namespace pal {
namespace {

using Floats = std::vector<float>;

struct Best {
  Floats values, indices;
};
Best best_of(const Floats& x, int64_t rows, int64_t k) {
  Builder b;
  const TopK best = top_k(b.input("x", {{rows, int64_t(x.size()) / rows}}), k);
  b.output("values", best.values), b.output("indices", best.indices);
  test::Evaluator eval(b.take());
  eval.set("x", x);
  eval.run();
  return {eval.floats("values"), eval.floats("indices")};
}

TEST(TopK, RanksByValueAndThenByIndex) {
  const float inf = INFINITY;
  const Best best = best_of({3, 1, 3, -inf, 2, /**/ -inf, 5, -inf, -inf, -inf}, 2, 4);
  EXPECT_EQ(best.values, (Floats{3, 3, 2, 1, 5, -inf, -inf, -inf}));
  EXPECT_EQ(best.indices, (Floats{0, 2, 4, 1, 1, 0, 2, 3}));
}

TEST(TopK, NansComeLast) {
  const Best best = best_of({NAN, -INFINITY, NAN, 1, NAN}, 1, 4);
  EXPECT_EQ(best.indices, (Floats{3, 1, 0, 2}));
  EXPECT_TRUE(std::isnan(best.values[2]) && std::isnan(best.values[3]));
}

TEST(TopK, IsTheFrontOfASort) {
  const int64_t rows = 9, width = 211;
  Floats x(size_t(rows * width));
  for (size_t i = 0; i < x.size(); ++i) {  // many are equal; a row falls, another one rises
    const size_t row = i / size_t(width);
    x[i] = row == 0   ? -float(i)
           : row == 1 ? float(i)
                      : float(philox({{uint32_t(i), 7, 0, 0}}, 1, 2).x[0] % 40);
  }
  for (const int64_t k : {1, 13, 211}) {
    const Best best = best_of(x, rows, k);
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<int> order(static_cast<size_t>(width));
      std::iota(order.begin(), order.end(), 0);
      const float* row = x.data() + r * width;
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return row[a] > row[b]; });
      for (int64_t n = 0; n < k; ++n) {
        EXPECT_EQ(best.indices[size_t(r * k + n)], float(order[size_t(n)])) << r << " " << n;
        EXPECT_EQ(best.values[size_t(r * k + n)], row[order[size_t(n)]]) << r << " " << n;
      }
    }
  }
}

}  // namespace
}  // namespace pal
