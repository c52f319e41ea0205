// reshape: dx = dy reshaped.
// slice: dx = dy placed among zeros, added to the sum.
// unbind: dx = stack of the dy.   stack: dx_t = row t of dy.
#include "ops/tensors/views.h"

#include <algorithm>

#include "core/gradient.h"
#include "ops/tensors/moves.h"
#include "ops/tensors/slices.h"

namespace pal {
namespace {

// An error unless every index of the leading axis begins on a byte.
void require_rows(const TensorSpec& spec) {
  require(spec.shape.rank() > 0 && !spec.layout, spec, ": needs a plain leading axis");
  require(trailing_numel(spec.shape, 1) * bits(spec.dtype) % 8 == 0, spec,
          ": rows do not begin on bytes");
}

// A window moves nothing: its kernel compares a few addresses.
Cost view_cost(SpecSpan in, SpecSpan out, const Attrs&) {
  return {0, 8.0 * double(in.size() + out.size())};
}

bool is_absent(const TensorSpec& spec) { return spec.shape.rank() == 0; }

Specs infer_stack(SpecSpan in, const Attrs&) {
  auto first = std::find_if_not(in.begin(), in.end(), is_absent);
  require(first != in.end(), "all of its operands are absent");
  require_rows({first->shape.with_front(1), first->dtype, first->layout});
  for (auto& spec : in) {
    require(is_absent(spec) || spec == *first, *first, ", ", spec, ": parts differ");
  }
  return {{first->shape.with_front(int64_t(in.size())), first->dtype}};
}

}  // namespace

const OpDef reshape_op{
    .name = "reshape",
    .formula = "x under another shape",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      auto& shape = attrs.as<ReshapeAttrs>().shape;
      require_operands(in, 1, 1);
      require(!in[0].layout && in[0].numel() == shape.numel(), in[0], " to ", shape,
              ": sizes differ");
      return {{shape, in[0].dtype}};
    },
    .gradient = [](GradientArgs& g) { g.give(0, reshape(g.dy(), g.in(0).shape())); },
    .zeros = keeps_zeros,
    .windows = [](SpecSpan, SpecSpan, const Attrs&) -> std::vector<Window> {
      return {{Window::Of::operand, 0, 0, 0}};
    },
    .cost = view_cost,
    .cpu = {.run = copy_operand},
    .cuda = &reshape_cuda,
    .examples = {{.operands = {example({3, 8})}, .attrs = ReshapeAttrs{{4, 6}}},
                 {.operands = {example({5, 13}, DType::bit)}, .attrs = ReshapeAttrs{{65}}},
                 {.operands = {example({33, 1031})}, .attrs = ReshapeAttrs{{1031, 33, 1}}}},
};

const OpDef slice_op{
    .name = "slice",
    .formula = "x[begin:end]",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      auto& s = attrs.as<SliceAttrs>();
      require_operands(in, 1, 1);
      require_rows(in[0]);
      return infer_slice(SliceAxis::leading, in[0], s.begin, s.end);
    },
    .gradient =
        [](GradientArgs& g) {
          slice_gradient(g, SliceAxis::leading, g.attrs<SliceAttrs>().begin, slice_grad);
        },
    .zeros = keeps_zeros,
    .windows = [](SpecSpan in, SpecSpan, const Attrs& attrs) -> std::vector<Window> {
      return {{Window::Of::operand, 0, 0, attrs.as<SliceAttrs>().begin * leading_row_bytes(in[0])}};
    },
    .cost = view_cost,
    .cpu = {.run = run_slice<CpuMove, SliceAttrs>},
    .cuda = &slice_cuda,
    .examples = {{.operands = {example({5, 7})}, .attrs = SliceAttrs{1, 4}},
                 {.operands = {example({5, 7}, DType::bf16)}, .attrs = SliceAttrs{2, 5}},
                 {.operands = {example({41, 1031})}, .attrs = SliceAttrs{3, 40}}},
};

const OpDef slice_grad_op{
    .name = "slice_grad",
    .formula = "sum + (part as rows from begin on)",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      auto& s = attrs.as<SliceGradAttrs>();
      return infer_slice_grad(SliceAxis::leading, in, s.begin, s.extent);
    },
    .optional_from = 1,
    .shares = {{0, 1}},
    .cpu = {.run = run_slice_grad<CpuMove, SliceGradAttrs>},
    .cuda = &slice_grad_cuda,
    .examples = {{.operands = {example({3, 7}), absent_example()}, .attrs = SliceGradAttrs{5, 1}},
                 {.operands = {example({3, 7}), example({5, 7})}, .attrs = SliceGradAttrs{5, 2}},
                 {.operands = {example({3, 7}, DType::bf16), example({5, 7}, DType::bf16)},
                  .attrs = SliceGradAttrs{5, 0}},
                 {.operands = {example({37, 1031}), example({41, 1031})},
                  .attrs = SliceGradAttrs{41, 3}}},
};

const OpDef unbind_op{
    .name = "unbind",
    .formula = "y_t = x[t]",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_operands(in, 1, 1);
      require(in[0].shape.rank() >= 2, in[0], ": needs a leading axis and another");
      require_rows(in[0]);
      return Specs(size_t(in[0].shape[0]), {in[0].shape.without(0), in[0].dtype});
    },
    .gradient = [](GradientArgs& g) { g.give(0, stack(g.all_dy())); },
    .zeros = keeps_zeros,
    .windows = [](SpecSpan in, SpecSpan out, const Attrs&) -> std::vector<Window> {
      std::vector<Window> windows;
      for (int t = 0; t < int(out.size()); ++t) {
        windows.push_back({Window::Of::operand, t, 0, t * leading_row_bytes(in[0])});
      }
      return windows;
    },
    .cost = view_cost,
    .cpu = {.run = run_unbind<CpuMove>},
    .cuda = &unbind_cuda,
    .examples = {{.operands = {example({3, 5, 7})}},
                 {.operands = {example({4, 7})}, .unread = {1, 0, 0, 1}},
                 {.operands = {example({2, 33, 1031}, DType::bf16)}}},
};

const OpDef stack_op{
    .name = "stack",
    .formula = "y[t] = x_t",
    .infer = infer_stack,
    .gradient = [](GradientArgs& g) { g.give_all(unbind(g.dy())); },
    .optional_from = 0,
    .zeros = gathers_zeros,
    .windows = [](SpecSpan in, SpecSpan out, const Attrs&) -> std::vector<Window> {
      std::vector<Window> windows;
      for (int t = 0; t < int(in.size()); ++t) {
        windows.push_back({Window::Of::output, 0, t, t * leading_row_bytes(out[0])});
      }
      return windows;
    },
    .cost = view_cost,
    .cpu = {.run = run_stack<CpuMove>},
    .cuda = &stack_cuda,
    .examples = {{.operands = {example({5, 7}), example({5, 7}), example({5, 7})}},
                 {.operands = {example({7}), absent_example(), example({7})}},
                 {.operands = {absent_example(), example({33, 1031}, DType::bf16)}}},
};

Val reshape(Val x, const Shape& shape) {
  return x.builder->emit1(reshape_op, {x}, ReshapeAttrs{shape});
}
Val slice(Val x, int64_t begin, int64_t end) {
  return x.builder->emit1(slice_op, {x}, SliceAttrs{begin, end});
}
Val slice_grad(Val part, Val sum, int64_t extent, int64_t begin) {
  return part.builder->emit1(slice_grad_op, {part, sum}, SliceGradAttrs{extent, begin});
}
std::vector<Val> unbind(Val x) { return x.builder->emit(unbind_op, {x}); }
Val stack(const std::vector<Val>& parts) {
  auto first = std::find_if(parts.begin(), parts.end(), [](Val v) { return bool(v); });
  require(first != parts.end(), "stack", "all of its operands are absent");
  return first->builder->emit1(stack_op, parts);
}

}  // namespace pal
