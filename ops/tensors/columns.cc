// concatenate: dx_k = its columns of dy.
// slice_columns: dx = dy placed among zeros, added to the sum.
#include "ops/tensors/columns.h"

#include <cstring>

#include "core/gradient.h"
#include "ops/kernels/float_types.h"
#include "ops/tensors/moves.h"
#include "ops/tensors/slices.h"

namespace pal {
namespace {

Shape with_width(const Shape& shape, int64_t width) {
  return with_extent(SliceAxis::last, shape, width);
}

void require_columns(const TensorSpec& spec) {
  require(spec.shape.rank() > 0 && !spec.layout && bits(spec.dtype) >= 8, spec,
          ": needs plain columns of whole bytes");
}

// The row [0, begin) [begin, begin + n) [begin + n, width): copied or zero, added to, as the first.
template <class T> void place_rows(const KernelArgs& a) {
  const T *part = a.input<T>(0), *sum = a.input<T>(1);
  T* out = a.output<T>(0);
  const auto [width, begin] = a.attrs.as<ColumnsGradAttrs>();
  const int64_t n = a.in_spec[0].shape.back(), rows = row_count(a.in_spec[0].shape);
  const int64_t grain = (kElementGrain + width - 1) / std::max<int64_t>(width, 1);
  auto one = [&, w = width, b = begin](int64_t r) {
    T* y = out + r * w;
    const T* x = part + r * n;
    if (!sum) {
      std::memset(static_cast<void*>(y), 0, size_t(w) * sizeof(T));
      std::memcpy(static_cast<void*>(y + b), x, size_t(n) * sizeof(T));
      return;
    }
    const T* s = sum + r * w;
    if (s != y) std::memcpy(static_cast<void*>(y), s, size_t(w) * sizeof(T));
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) store(y, b + j, load(y, b + j) + load(x, j));
  };
  parallel_chunks(a.queue, rows, grain, [&](int64_t from, int64_t to) {
    for (int64_t r = from; r < to; ++r) one(r);
  });
}

void run_slice_grad(const KernelArgs& a) {
  by_float_type(a.out_spec[0].dtype, [&]<class T>(T) { place_rows<T>(a); });
}

Specs infer_concatenate(SpecSpan in, const Attrs&) {
  require(!in.empty(), "takes one operand at least");
  int64_t width = 0;
  for (auto& spec : in) {
    require_columns(spec);
    require(spec.dtype == in[0].dtype && with_width(spec.shape, 0) == with_width(in[0].shape, 0),
            in[0], ", ", spec, ": rows differ");
    width += spec.shape.back();
  }
  return {{with_width(in[0].shape, width), in[0].dtype}};
}

}  // namespace

const OpDef concatenate_op{
    .name = "concatenate",
    .formula = "[x_0 x_1 ..] along the last axis",
    .infer = infer_concatenate,
    .gradient =
        [](GradientArgs& g) {
          int64_t begin = 0;
          for (int k = 0; k < int(g.node.in.size()); ++k) {
            const int64_t width = g.in(k).shape().back();
            if (g.wants(k)) g.give(k, slice_columns(g.dy(), begin, begin + width));
            begin += width;
          }
        },
    .zeros = gathers_zeros,
    .rows = rows_of_each,
    .cpu = {.run = run_concatenate<CpuMove>},
    .cuda = &concatenate_cuda,
    .examples = {{.operands = {example({3, 7}), example({3, 2}), example({3, 5})}},
                 {.operands = {example({2, 3, 7}, DType::bf16), example({2, 3, 4}, DType::bf16)}},
                 {.operands = {example({67, 1031}), example({67, 513})}}},
};

const OpDef slice_columns_op{
    .name = "slice_columns",
    .formula = "x[.., begin:end]",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      auto& s = attrs.as<ColumnsAttrs>();
      require_operands(in, 1, 1);
      require_columns(in[0]);
      return infer_slice(SliceAxis::last, in[0], s.begin, s.end);
    },
    .gradient =
        [](GradientArgs& g) {
          slice_gradient(g, SliceAxis::last, g.attrs<ColumnsAttrs>().begin, slice_columns_grad);
        },
    .zeros = keeps_zeros,
    .rows = rows_of_each,
    .cpu = {.run = run_slice_columns<CpuMove, ColumnsAttrs>},
    .cuda = &slice_columns_cuda,
    .examples = {{.operands = {example({3, 7})}, .attrs = ColumnsAttrs{2, 5}},
                 {.operands = {example({2, 3, 7}, DType::f16)}, .attrs = ColumnsAttrs{0, 3}},
                 {.operands = {example({67, 1031})}, .attrs = ColumnsAttrs{11, 1031}}},
};

const OpDef slice_columns_grad_op{
    .name = "slice_columns_grad",
    .formula = "sum + (part as columns from begin on)",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      auto& s = attrs.as<ColumnsGradAttrs>();
      return infer_slice_grad(SliceAxis::last, in, s.begin, s.width);
    },
    .optional_from = 1,
    .shares = {{0, 1}},
    .rows = rows_of_each,
    .cpu = {.run = run_slice_grad},
    .cuda = &slice_columns_grad_cuda,
    .examples = {{.operands = {example({3, 4}), absent_example()}, .attrs = ColumnsGradAttrs{7, 1}},
                 {.operands = {example({3, 4}), example({3, 7})}, .attrs = ColumnsGradAttrs{7, 3}},
                 {.operands = {example({3, 4}, DType::bf16), example({3, 7}, DType::bf16)},
                  .attrs = ColumnsGradAttrs{7, 0}},
                 {.operands = {example({67, 513}), example({67, 1031})},
                  .attrs = ColumnsGradAttrs{1031, 17}}},
};

Val concatenate(const std::vector<Val>& parts) {
  require(!parts.empty() && parts[0], "concatenate", "takes one operand at least");
  return parts[0].builder->emit1(concatenate_op, parts);
}
Val slice_columns(Val x, int64_t begin, int64_t end) {
  return x.builder->emit1(slice_columns_op, {x}, ColumnsAttrs{begin, end});
}
std::vector<Val> split(Val x, const std::vector<int64_t>& widths) {
  std::vector<Val> parts;
  int64_t begin = 0;
  for (int64_t width : widths) {
    parts.push_back(slice_columns(x, begin, begin + width));
    begin += width;
  }
  require(begin == x.shape().back(), "slice_columns",
          to_string(x.spec()) + ": the parts have " + std::to_string(begin) + " columns");
  return parts;
}
Val slice_columns_grad(Val part, Val sum, int64_t width, int64_t begin) {
  return part.builder->emit1(slice_columns_grad_op, {part, sum}, ColumnsGradAttrs{width, begin});
}

}  // namespace pal
