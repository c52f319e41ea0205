// Sums over leading axes or everything, and the broadcasts that are their gradients. All sums go
// through fixed chunks: the same bits for any number of threads and any alignment.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef add_broadcast_op, broadcast_leading_op, sum_all_op, sum_leading_op;
[[gnu::weak]] extern const Backend add_broadcast_cuda, broadcast_leading_cuda, sum_all_cuda,
    sum_leading_cuda;

// A sum over leading axes adds runs of so many rows one after the other, from zero, then these
// runs' sums to those of chunks of so many rows, then so many chunks, then these groups' sums, then
// the sum so far.
constexpr int64_t kSumRun = 32, kSumRows = 256, kSumChunks = 64;

struct SumLeadingAttrs {
  int axes = 1;
  DType dtype = DType::f32;  // of the result
  int64_t columns = 0;       // the first of rows, which are summed; 0: all
  auto fields() const {
    return std::tuple{field("axes", axes), field("dtype", dtype), rare_field("columns", columns)};
  }
};
struct BroadcastAttrs {
  Shape shape;
  auto fields() const { return std::tuple{field("shape", shape)}; }
};

// (S, ..) -> (..): the sum over the first `axes` axes, added to `sum` where there is one, whose
// type is then the result's; else the result is of x's type.
Val sum_leading(Val x, int axes = 1, Val sum = {});
// (.., C) -> f32 (C): the sum over all axes but the last; the gradient of a bias.
Val sum_rows(Val x, Val sum = {});
// f32[1]: the sum of all elements.
Val sum_all(Val x);
// (..) -> shape (S, .., ..) whose trailing axes are x's: copies. A single number fits any shape.
Val broadcast_leading(Val x, const Shape& shape);

// x (S, .., ..) + b (..), for every index of the axes that b lacks.
Val add_broadcast(Val x, Val b);
// (.., C) + (C)
inline Val add_bias(Val x, Val bias) { return add_broadcast(x, bias); }

}  // namespace pal
