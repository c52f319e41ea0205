// Which axis of each matrix is contiguous, and so which order cuBLASLt sees it in.
#include "ops/libraries/lt_product.h"

#include <algorithm>
#include <string>

#include "core/error.h"

namespace pal {
namespace {

// A row-major matrix (rows, columns) at these strides, which the product wants transposed: as
// columns of length `columns` where its rows are contiguous, else as its own columns, transposed.
// An axis of extent 1 has no stride to speak of.
LtMatrix read_transposed(int64_t rows, int64_t columns, const std::array<int64_t, 3>& stride) {
  const int64_t along_rows = stride[1], along_columns = stride[2];
  if ((along_columns == 1 || columns == 1) && (along_rows >= columns || rows == 1)) {
    return {columns, rows, std::max(along_rows, columns), false, stride[0]};
  }
  if ((along_rows == 1 || rows == 1) && (along_columns >= rows || columns == 1)) {
    return {rows, columns, std::max(along_columns, rows), true, stride[0]};
  }
  throw ProgramError("[matmul] a matrix " + std::to_string(rows) + " x " + std::to_string(columns) +
                     " with strides " + std::to_string(along_rows) + ", " +
                     std::to_string(along_columns) + " is contiguous along neither axis");
}

}  // namespace

int64_t lt_mask_leading(int64_t row) { return (row + 127) / 128 * 128; }

int64_t span_of(const LtMatrix& m, int64_t batch) {
  return (batch - 1) * m.batch + (m.columns - 1) * m.leading + m.rows;
}

LtProduct lt_product(const ProductShape& s) {
  LtProduct p{.left = read_transposed(s.k, s.n, s.b),
              .right = read_transposed(s.m, s.k, s.a),
              .result = read_transposed(s.m, s.n, s.c),
              .batch = s.batch};
  if (p.result.transposed) {
    // Only where c is a single row or column, so that either reading is the same.
    throw ProgramError("[matmul] the result's rows are not contiguous");
  }
  return p;
}

}  // namespace pal
