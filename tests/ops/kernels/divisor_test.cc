// Division by an invariant beside the processor's own.
#include "ops/kernels/divisor.h"

#include <gtest/gtest.h>

namespace pal {
namespace {

TEST(Divisor, DividesAsTheProcessorDoes) {
  const int64_t limit = int64_t{1} << 31;
  for (const int64_t n :
       {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{7}, int64_t{56}, int64_t{64}, int64_t{641},
        int64_t{6700417}, limit / 2, limit / 2 + 1, limit - 1, limit, 3 * limit}) {
    const Divisor by(n);
    for (const int64_t around :
         {int64_t{0}, n, 2 * n, limit / 2, limit / n * n, limit - 2, limit, limit + n, 5 * limit}) {
      for (int64_t i = around - 3; i <= around + 3; ++i) {
        if (i < 0) continue;
        ASSERT_EQ(by.quotient(i), i / n) << i << " / " << n;
        ASSERT_EQ(by.rest(i), i % n) << i << " / " << n;
        ASSERT_EQ(by.parts(i).q, i / n);
        ASSERT_EQ(by.parts(i).r, i % n);
      }
    }
  }
}

}  // namespace
}  // namespace pal
