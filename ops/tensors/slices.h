// What slices of the leading axis (slice) and of the last one (slice_columns) share: their shapes,
// and a gradient that is placed among zeros or added to the sum.
#pragma once
#include <string>

#include "core/gradient.h"
#include "core/op.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/tiles.h"
#include "ops/tensors/casts.h"

namespace pal {

enum class SliceAxis : uint8_t { leading, last };

inline int index_of(SliceAxis axis, const Shape& x) {
  return axis == SliceAxis::leading ? 0 : x.rank() - 1;
}
inline std::string name_of(SliceAxis axis) {
  return axis == SliceAxis::leading ? "rows" : "columns";
}
inline Shape with_extent(SliceAxis axis, Shape shape, int64_t extent) {
  shape[index_of(axis, shape)] = extent;
  return shape;
}

// x -> its rows or columns [begin, end).
inline Specs infer_slice(SliceAxis axis, const TensorSpec& x, int64_t begin, int64_t end) {
  require(0 <= begin && begin <= end && end <= x.shape[index_of(axis, x.shape)], x, ": no ",
          name_of(axis), " [", begin, ",", end, ")");
  return {{with_extent(axis, x.shape, end - begin), x.dtype}};
}

// part, sum, which may be absent -> part as rows or columns from begin on among `extent`.
inline Specs infer_slice_grad(SliceAxis axis, SpecSpan in, int64_t begin, int64_t extent) {
  require_operands(in, 1, 2);
  const TensorSpec& part = in[0];
  require(is_float(part.dtype) && part.shape.rank() > 0 && !part.layout, part,
          ": needs plain floating-point ", name_of(axis));
  require(0 <= begin && begin + part.shape[index_of(axis, part.shape)] <= extent, part,
          ": does not fit into ", extent, " ", name_of(axis));
  const TensorSpec out{with_extent(axis, part.shape, extent), part.dtype};
  require(in.size() < 2 || !present(in[1]) || in[1] == out, part, ": the sum should be ", out);
  return {out};
}

// `place(part, sum, extent, begin)` is the gradient node of either.
inline void slice_gradient(GradientArgs& g, SliceAxis axis, int64_t begin,
                           Val (*place)(Val part, Val sum, int64_t extent, int64_t begin)) {
  const Shape& x = g.in(0).shape();
  const int64_t extent = x[index_of(axis, x)];
  const Val part = cast(g.dy(), g.type(0));
  g.give(0, place(part, g.take_sum(0), extent, begin));
}

}  // namespace pal
