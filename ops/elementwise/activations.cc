// relu: y = max(x, 0), dx = dy [y > 0].
// clip: y = min(max(x, lo), hi), dx = dy [lo < y < hi].
// tanh: dx = dy (1 - y^2).   sigmoid: y = 1/(1 + e^-x), dx = dy y (1 - y).
#include "ops/elementwise/activations.h"

#include "core/gradient.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

// Tails, bf16, and enough elements for several chunks; `lo, hi` should reach into every piece.
std::vector<Example> unary_examples(float lo, float hi, const Attrs& attrs = {}) {
  return {{.operands = {example({3, 7}, DType::f32, lo, hi)}, .attrs = attrs},
          {.operands = {example({5, 13}, DType::bf16, lo, hi)}, .attrs = attrs},
          {.operands = {example({33, 1031}, DType::f32, lo, hi)}, .attrs = attrs}};
}

// (dy, y) with y drawn from the function's range.
std::vector<Example> gradient_examples(float lo, float hi) {
  return {{.operands = {example({3, 7}), example({3, 7}, DType::f32, lo, hi)}},
          {.operands = {example({5, 13}, DType::f16), example({5, 13}, DType::f16, lo, hi)}},
          {.operands = {example({33, 1031}), example({33, 1031}, DType::f32, lo, hi)}}};
}

Cost transcendental_cost(SpecSpan in, SpecSpan out, const Attrs&) {
  return {20.0 * double(in[0].numel()), double(in[0].bytes() + out[0].bytes())};
}

}  // namespace

const OpDef relu_op{
    .name = "relu",
    .formula = "max(x, 0)",
    .infer = [](SpecSpan in, const Attrs&) { return infer_like_first(in, 1); },
    .gradient =
        [](GradientArgs& g) {
          g.give(0, pass_inside(g.dy(), g.out(0), 0, std::numeric_limits<float>::infinity()));
        },
    .shares = {{0, 0}},
    .cpu = {.run = [](const KernelArgs& a) { map_elements<1>(a, Relu{}); }},
    .cuda = &relu_cuda,
    .examples = unary_examples(-2, 2),
};

const OpDef clip_op{
    .name = "clip",
    .formula = "min(max(x, lo), hi)",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      auto& interval = attrs.as<IntervalAttrs>();
      require(interval.lo < interval.hi, "lo must be less than hi");
      return infer_like_first(in, 1);
    },
    .gradient =
        [](GradientArgs& g) {
          auto& interval = g.attrs<IntervalAttrs>();
          g.give(0, pass_inside(g.dy(), g.out(0), interval.lo, interval.hi));
        },
    .shares = {{0, 0}},
    .cpu = {.run =
                [](const KernelArgs& a) {
                  auto& interval = a.attrs.as<IntervalAttrs>();
                  map_elements<1>(a, Clip{interval.lo, interval.hi});
                }},
    .cuda = &clip_cuda,
    .examples = unary_examples(-3, 3, IntervalAttrs{-1, 1}),
};

const OpDef pass_inside_op{
    .name = "pass_inside",
    .formula = "dy if lo < y < hi else 0",
    .infer = [](SpecSpan in, const Attrs&) { return infer_like_first(in, 2, true); },
    .shares = {{0, 0}, {0, 1}},
    .reads =
        [](int operand, const Attrs& attrs) {
          auto& interval = attrs.as<IntervalAttrs>();
          return operand == 1 ? reads_predicate(interval.lo, interval.hi) : reads_values();
        },
    .cpu = {.run =
                [](const KernelArgs& a) {
                  auto& interval = a.attrs.as<IntervalAttrs>();
                  map_elements<2>(a, PassInside{interval.lo, interval.hi},
                                  bits_of_interval(interval.lo, interval.hi));
                }},
    .cuda = &pass_inside_cuda,
    .examples = {{.operands = {example({3, 7}), example({3, 7})}, .attrs = IntervalAttrs{}},
                 {.operands = {example({3, 7}), example({3, 7})}, .attrs = IntervalAttrs{-1, 1}},
                 {.operands = {example({3, 7}), example({3, 7}, DType::bit)},
                  .attrs = IntervalAttrs{-1, 1}},
                 {.operands = {example({5, 13}, DType::bf16), example({5, 13}, DType::bf16)},
                  .attrs = IntervalAttrs{}},
                 {.operands = {example({33, 1031}), example({33, 1031})},
                  .attrs = IntervalAttrs{0, 1}}},
};

const OpDef tanh_op{
    .name = "tanh",
    .formula = "tanh(x)",
    .infer = [](SpecSpan in, const Attrs&) { return infer_like_first(in, 1); },
    .gradient =
        [](GradientArgs& g) {
          g.give(0, g.builder.emit1(tanh_grad_op, {g.dy(), g.out(0)}));
        },
    .shares = {{0, 0}},
    .cost = transcendental_cost,
    .cpu = {.run = [](const KernelArgs& a) { map_elements<1>(a, Tanh{}); }},
    .cuda = &tanh_cuda,
    .examples = unary_examples(-4, 4),
};

const OpDef tanh_grad_op{
    .name = "tanh_grad",
    .formula = "dy (1 - y^2)",
    .infer = [](SpecSpan in, const Attrs&) { return infer_like_first(in, 2); },
    .shares = {{0, 0}, {0, 1}},
    .cpu = {.run = [](const KernelArgs& a) { map_elements<2>(a, TanhGrad{}); }},
    .cuda = &tanh_grad_cuda,
    .examples = gradient_examples(-1, 1),
};

const OpDef sigmoid_op{
    .name = "sigmoid",
    .formula = "1 / (1 + e^-x)",
    .infer = [](SpecSpan in, const Attrs&) { return infer_like_first(in, 1); },
    .gradient =
        [](GradientArgs& g) {
          g.give(0, g.builder.emit1(sigmoid_grad_op, {g.dy(), g.out(0)}));
        },
    .shares = {{0, 0}},
    .cost = transcendental_cost,
    .cpu = {.run = [](const KernelArgs& a) { map_elements<1>(a, Sigmoid{}); }},
    .cuda = &sigmoid_cuda,
    .examples = unary_examples(-6, 6),
};

const OpDef sigmoid_grad_op{
    .name = "sigmoid_grad",
    .formula = "dy y (1 - y)",
    .infer = [](SpecSpan in, const Attrs&) { return infer_like_first(in, 2); },
    .shares = {{0, 0}, {0, 1}},
    .cpu = {.run = [](const KernelArgs& a) { map_elements<2>(a, SigmoidGrad{}); }},
    .cuda = &sigmoid_grad_cuda,
    .examples = gradient_examples(0, 1),
};

Val relu(Val x) { return x.builder->emit1(relu_op, {x}); }
Val clip(Val x, float lo, float hi) {
  return x.builder->emit1(clip_op, {x}, IntervalAttrs{lo, hi});
}
Val tanh(Val x) { return x.builder->emit1(tanh_op, {x}); }
Val sigmoid(Val x) { return x.builder->emit1(sigmoid_op, {x}); }
Val pass_inside(Val dy, Val y, float lo, float hi) {
  return dy.builder->emit1(pass_inside_op, {dy, y}, IntervalAttrs{lo, hi});
}

}  // namespace pal
