// The descriptors of matrix products, multiplied out as cuBLASLt's manual reads them.
#include "ops/libraries/lt_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/error.h"
#include "ops/products/batched_matmul.h"
#include "ops/products/matmul.h"

namespace pal::test {
namespace {

double at(const std::vector<double>& memory, const LtMatrix& m, int64_t batch, int64_t row,
          int64_t column) {
  if (m.transposed) std::swap(row, column);
  EXPECT_LT(row, m.rows);
  EXPECT_LT(column, m.columns);
  return memory.at(size_t(batch * m.batch + row + column * m.leading));
}

std::vector<double> numbers(int64_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<double> out(static_cast<size_t>(n));
  for (double& x : out) x = double(int(rng() % 19) - 9);
  return out;
}

// Both readings of the product give the same matrix, at the same places.
void expect_same_product(const ProductShape& s, int64_t a_size, int64_t b_size, int64_t c_size) {
  const LtProduct p = lt_product(s);
  const auto a = numbers(a_size, 1), b = numbers(b_size, 2);
  std::vector<double> want(static_cast<size_t>(c_size)), got = want;
  for (int64_t i = 0; i < s.batch; ++i) {
    for (int64_t m = 0; m < s.m; ++m) {
      for (int64_t n = 0; n < s.n; ++n) {
        double sum = 0, lt = 0;
        for (int64_t k = 0; k < s.k; ++k) {
          sum += a.at(size_t(i * s.a[0] + m * s.a[1] + k * s.a[2])) *
                 b.at(size_t(i * s.b[0] + k * s.b[1] + n * s.b[2]));
          lt += at(b, p.left, i, n, k) * at(a, p.right, i, k, m);
        }
        want.at(size_t(i * s.c[0] + m * s.c[1] + n * s.c[2])) = sum;
        ASSERT_LT(n, p.result.rows);
        got.at(size_t(i * p.result.batch + n + m * p.result.leading)) = lt;
      }
    }
  }
  EXPECT_EQ(want, got);
  EXPECT_EQ(p.batch, s.batch);
  // What the library asks of every matrix.
  for (const LtMatrix& m : {p.left, p.right, p.result}) {
    EXPECT_GE(m.leading, m.rows);
    EXPECT_GT(std::min(m.rows, m.columns), 0);
  }
  EXPECT_FALSE(p.result.transposed);
}

TEST(LtProduct, MatmulInAllItsForms) {
  const int64_t extents[] = {1, 2, 5, 8};
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      for (int64_t m : extents) {
        for (int64_t n : extents) {
          for (int64_t k : extents) {
            const TensorSpec in[] = {{ta ? Shape{k, m} : Shape{m, k}},
                                     {tb ? Shape{n, k} : Shape{k, n}}};
            const ProductShape s = matmul_product(in, {.ta = ta, .tb = tb});
            EXPECT_EQ(std::tuple(s.m, s.n, s.k), std::tuple(m, n, k));
            expect_same_product(s, m * k, k * n, m * n);
          }
        }
      }
    }
  }
}

TEST(LtProduct, BatchesOnEitherAxis) {
  const int64_t batch = 3;
  for (int bits = 0; bits < 32; ++bits) {
    const bool ta = bits & 1, tb = bits & 2;
    const BatchedMatmulAttrs attrs{ta, tb, bits >> 2 & 1, bits >> 3 & 1, bits >> 4 & 1};
    for (auto [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{4, 5, 6},
                           {1, 5, 6},
                           {4, 1, 6},
                           {4, 5, 1},
                           {1, 1, 6},
                           {1, 1, 1}}) {
      auto shape = [&](int64_t rows, int64_t columns, bool t, int axis) {
        if (t) std::swap(rows, columns);
        return axis ? Shape{rows, batch, columns} : Shape{batch, rows, columns};
      };
      const TensorSpec in[] = {{shape(m, k, ta, attrs.a_batch)}, {shape(k, n, tb, attrs.b_batch)}};
      expect_same_product(batched_matmul_product(in, attrs), batch * m * k, batch * k * n,
                          batch * m * n);
    }
  }
}

TEST(LtProduct, RefusesWhatIsContiguousAlongNeitherAxis) {
  ProductShape s{.m = 4, .n = 5, .k = 6};
  s.a = {0, 12, 2}, s.b = {0, 5, 1}, s.c = {0, 5, 1};
  EXPECT_THROW(lt_product(s), ProgramError);
  s.a = {0, 6, 1}, s.c = {0, 1, 4};  // a result by columns
  EXPECT_THROW(lt_product(s), ProgramError);
}

TEST(LtProduct, MasksHaveWholeGroupsOfBitsInARow) {
  for (int64_t row : {1, 127, 128, 129, 256, 1000}) {
    const int64_t leading = lt_mask_leading(row);
    EXPECT_EQ(leading % 128, 0);
    EXPECT_GE(leading, row);
    EXPECT_LT(leading, row + 128);
    EXPECT_EQ(bits_are_lt_mask(row), row % 128 == 0);
  }
}

}  // namespace
}  // namespace pal::test
