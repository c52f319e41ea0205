// Values that are windows of others: reshape, slices on the leading axis, unbind and its opposite,
// stack. Where memory planning puts the window where it belongs, their kernels move nothing.
#pragma once
#include <vector>

#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef reshape_op, slice_grad_op, slice_op, stack_op, unbind_op;
[[gnu::weak]] extern const Backend reshape_cuda, slice_grad_cuda, slice_cuda, stack_cuda,
    unbind_cuda;

struct ReshapeAttrs {
  Shape shape;
  auto fields() const { return std::tuple{field("shape", shape)}; }
};
struct SliceAttrs {
  int64_t begin = 0, end = 0;
  auto fields() const { return std::tuple{field("begin", begin), field("end", end)}; }
};
struct SliceGradAttrs {
  int64_t extent = 0, begin = 0;
  auto fields() const { return std::tuple{field("extent", extent), field("begin", begin)}; }
};

// The same elements in the same order under another shape; a plain layout, any type.
Val reshape(Val x, const Shape& shape);
// Rows [begin, end) of the leading axis.
Val slice(Val x, int64_t begin, int64_t end);
// part (n, ..) as rows [begin, begin + n) of a tensor of `extent` rows, zero elsewhere; added to
// `sum` where there is one. The gradient of slice.
Val slice_grad(Val part, Val sum, int64_t extent, int64_t begin);
// (T, ..) -> T values (..): the time steps of a sequence.
std::vector<Val> unbind(Val x);
// T values (..) -> (T, ..). Absent ones count as zeros; one at least must be there.
Val stack(const std::vector<Val>& parts);

}  // namespace pal
