// relu: y = max(x, 0), dx = dy [y > 0].
// clip: y = min(max(x, lo), hi), dx = dy [lo < y < hi].
// tanh: dx = dy (1 - y^2).   sigmoid: y = 1/(1 + e^-x), dx = dy y (1 - y).
#include "ops/elementwise/activations.h"

#include "core/gradient.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

// (dy, y) with y drawn from the function's range.
std::vector<Example> gradient_examples(float lo, float hi) {
  return {{.operands = {example({3, 7}), example({3, 7}, DType::f32, lo, hi)}},
          {.operands = {example({5, 13}, DType::f16), example({5, 13}, DType::f16, lo, hi)}},
          {.operands = {example({33, 1031}), example({33, 1031}, DType::f32, lo, hi)}}};
}

Cost transcendental_cost(SpecSpan in, SpecSpan out, const Attrs&) {
  return streaming_cost(20.0 * double(in[0].numel()), in, out);
}

}  // namespace

Zeros clip_zeros(const Attrs& attrs) {
  auto& interval = attrs.as<IntervalAttrs>();
  return interval.lo == 0 || interval.hi == 0 ? Zeros::makes : Zeros::few;
}

const OpDef relu_op = map_op<1, Relu>({
    .name = "relu",
    .formula = "max(x, 0)",
    .gradient =
        [](GradientArgs& g) {
          g.give(0, pass_inside(g.dy(), g.out(0), 0, std::numeric_limits<float>::infinity()));
        },
    .zeros = makes_zeros,
    .cuda = &relu_cuda,
    .examples = alike_examples<1>(DType::bf16, -2, 2),
});

const OpDef clip_op = map_op<1, Clip>({
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
    .zeros = clip_zeros,
    .cuda = &clip_cuda,
    .examples = alike_examples<1>(DType::bf16, -3, 3, IntervalAttrs{-1, 1}),
});

const OpDef pass_inside_op = map_op<2, PassInside>({
    .name = "pass_inside",
    .formula = "dy if lo < y < hi else 0",
    .infer = [](SpecSpan in, const Attrs&) { return infer_like_first(in, 2, true); },
    .reads = [](int operand, const Attrs& attrs) -> Reads {
      auto& interval = attrs.as<IntervalAttrs>();
      return operand == 1 ? reads_predicate(interval.lo, interval.hi) : reads_values();
    },
    .zeros = makes_zeros,
    .cuda = &pass_inside_cuda,
    .examples = {{.operands = {example({3, 7}), example({3, 7})}, .attrs = IntervalAttrs{}},
                 {.operands = {example({3, 7}), example({3, 7})}, .attrs = IntervalAttrs{-1, 1}},
                 {.operands = {example({3, 7}), example({3, 7}, DType::bit)},
                  .attrs = IntervalAttrs{-1, 1}},
                 {.operands = {example({5, 13}, DType::bf16), example({5, 13}, DType::bf16)},
                  .attrs = IntervalAttrs{}},
                 {.operands = {example({33, 1031}), example({33, 1031})},
                  .attrs = IntervalAttrs{0, 1}}},
});

const OpDef tanh_op = map_op<1, Tanh>({
    .name = "tanh",
    .formula = "tanh(x)",
    .gradient =
        [](GradientArgs& g) {
          g.give(0, g.builder.emit1(tanh_grad_op, {g.dy(), g.out(0)}));
        },
    .cost = transcendental_cost,
    .cuda = &tanh_cuda,
    .examples = alike_examples<1>(DType::bf16, -4, 4),
});

const OpDef tanh_grad_op = map_op<2, TanhGrad>({
    .name = "tanh_grad",
    .formula = "dy (1 - y^2)",
    .cuda = &tanh_grad_cuda,
    .examples = gradient_examples(-1, 1),
});

const OpDef sigmoid_op = map_op<1, Sigmoid>({
    .name = "sigmoid",
    .formula = "1 / (1 + e^-x)",
    .gradient =
        [](GradientArgs& g) {
          g.give(0, g.builder.emit1(sigmoid_grad_op, {g.dy(), g.out(0)}));
        },
    .cost = transcendental_cost,
    .cuda = &sigmoid_cuda,
    .examples = alike_examples<1>(DType::bf16, -6, 6),
});

const OpDef sigmoid_grad_op = map_op<2, SigmoidGrad>({
    .name = "sigmoid_grad",
    .formula = "dy y (1 - y)",
    .cuda = &sigmoid_grad_cuda,
    .examples = gradient_examples(0, 1),
});

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
