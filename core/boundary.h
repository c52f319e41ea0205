// Where a tensor may begin. Storages begin on 64 bytes; views and windows into them lie where they
// please, but every tensor begins on a boundary that its own rows keep. So what a kernel may take
// for granted of an address depends on the shape alone, and is the same wherever it is placed.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/spec.h"

namespace pal {

// The widest that kernels ask for: what a thread loads at a time.
constexpr int64_t kWidestBoundary = 16;  // bytes

// The largest power of two, 16 at most, that divides the bytes of a row (along the last axis); 1
// where rows are not whole bytes, or the layout is not plain.
inline int64_t row_boundary(const TensorSpec& spec) {
  const int64_t row = spec.shape.rank() ? spec.shape.back() : 1, in_bits = row * bits(spec.dtype);
  if (spec.layout || in_bits % 8) return 1;
  const int64_t bytes = in_bits / 8;
  return bytes ? std::min(bytes & -bytes, kWidestBoundary) : kWidestBoundary;
}

}  // namespace pal
