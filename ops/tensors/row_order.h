// Rows in another order: sequences back to front, and leading axes exchanged.
#pragma once
#include "core/op.h"
#include "core/val.h"
#include "ops/kernels/tiles.h"

namespace pal {

extern const OpDef reverse_op, swap_leading_op;
[[gnu::weak]] extern const Backend reverse_cuda, swap_leading_cuda;

// x (T, B, ..), lengths i32[B] -> y (T, B, ..): y[t, b] = x[len - 1 - t, b] for t < len, the
// padding behind stays where it is. Its own inverse, and its own gradient.
// A length outside [0, T] is a ProgramError when the node runs.
Val reverse(Val x, Val lengths);

// (A, B, ..) -> (B, A, ..), of any type with whole bytes: from images' pixels to time-major
// sequences, and back.
Val swap_leading(Val x);

// Where row r of the result comes from.
struct ReversedRow {  // row (t, b) of (T, B, ..)
  const int32_t* lengths;
  int64_t steps, batch;
  PAL_HD int64_t operator()(int64_t r) const {
    const int64_t t = divide(r, batch), b = r - t * batch, length = lengths[b];
    if (length < 0 || length > steps) return kNoRow;
    return (t < length ? length - 1 - t : t) * batch + b;
  }
};
struct SwappedRow {  // row (j, i) of (columns, rows, ..)
  int64_t rows, columns;
  PAL_HD int64_t operator()(int64_t r) const {
    const int64_t j = divide(r, rows), i = r - j * rows;
    return i * columns + j;
  }
};

}  // namespace pal
