// Joining and parting tensors along the last axis.
#pragma once
#include <vector>

#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef concatenate_op, slice_columns_grad_op, slice_columns_op;
[[gnu::weak]] extern const Backend concatenate_cuda, slice_columns_grad_cuda, slice_columns_cuda;

struct ColumnsAttrs {
  int64_t begin = 0, end = 0;
  auto fields() const { return std::tuple{field("begin", begin), field("end", end)}; }
};
struct ColumnsGradAttrs {
  int64_t width = 0, begin = 0;
  auto fields() const { return std::tuple{field("width", width), field("begin", begin)}; }
};

// (.., C0), (.., C1), ... -> (.., C0 + C1 + ...); all of one type.
Val concatenate(const std::vector<Val>& parts);
// Columns [begin, end) of the last axis: (.., C) -> (.., end - begin).
Val slice_columns(Val x, int64_t begin, int64_t end);
// The last axis in parts of these widths, which must add up to it.
std::vector<Val> split(Val x, const std::vector<int64_t>& widths);
// part (.., n) as columns [begin, begin + n) of a tensor (.., width), zero elsewhere; added to
// `sum` where there is one. The gradient of slice_columns.
Val slice_columns_grad(Val part, Val sum, int64_t width, int64_t begin);

}  // namespace pal
