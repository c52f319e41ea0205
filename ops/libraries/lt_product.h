// A row-major product as cuBLASLt is told of it, which thinks in columns: C^T = op(b)^T op(a)^T,
// and a row-major matrix read by columns is its transpose already. Plain arithmetic, tested without
// a GPU.
#pragma once
#include <cstdint>

#include "ops/libraries/matmul_product.h"

namespace pal {

// A matrix in column-major order: element (i, j) lies i + j * leading elements from its start.
struct LtMatrix {
  int64_t rows, columns, leading;
  bool transposed;  // the product takes its transpose
  int64_t batch;    // elements from one of the batch to the next
};

// result (n x m) = left (n x k, once transposed as it says) right (k x m), for each of the batch.
struct LtProduct {
  LtMatrix left, right, result;  // op(b), op(a), c
  int64_t batch;
};

// From a matrix's first element to behind its last, of all of a batch.
int64_t span_of(const LtMatrix& matrix, int64_t batch);

// What is done to a result before it is stored.
enum class Epilogue : uint8_t { none, relu, relu_grad };

// relu_grad lets through what a mask of bits says: lowest bit first, a row of the result (for the
// library a column) begins so many bits after the one before, a multiple of 128. So the bits of a
// tensor whose rows are such a multiple are a mask as they lie.
int64_t lt_mask_leading(int64_t row);
inline bool bits_are_lt_mask(int64_t row) { return row == lt_mask_leading(row); }

// ProductShape's strides are those of op(a) (m, k), op(b) (k, n) and c (m, n). ProgramError where a
// matrix has unit stride along neither axis.
LtProduct lt_product(const ProductShape& shape);

}  // namespace pal
