// The best words of each row: what a beam search needs of a decoder's log probabilities.
#pragma once
#include "core/host_device.h"
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef top_k_op;
[[gnu::weak]] extern const Backend top_k_cuda;

struct TopKAttrs {
  int64_t k = 1;
  auto fields() const { return std::tuple{field("k", k)}; }
};

// Whether x at index i comes before y at j: the larger one does, of equals the lower index, NaNs
// come last.
PAL_HD inline bool ranks_before(float x, int32_t i, float y, int32_t j) {
  if (x > y) return true;
  if (x < y) return false;
  const bool x_is_nan = x != x, y_is_nan = y != y;
  return x_is_nan == y_is_nan ? i < j : y_is_nan;
}

struct TopK {
  Val values, indices;
};
// f32 x (.., V) -> the k first of each row in that order, f32 (.., k), and where they lie, i32
// (.., k). Not differentiable.
TopK top_k(Val x, int64_t k);

}  // namespace pal
