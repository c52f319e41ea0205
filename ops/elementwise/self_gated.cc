// silu: y = x s(x), dx = dy s (1 + x (1 - s)).   gelu: y = x Phi(x), dx = dy (Phi(x) + x phi(x)).
#include "ops/elementwise/self_gated.h"

#include "core/gradient.h"
#include "ops/kernels/cuda.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

// Tails, a half type, and enough elements for several chunks.
template <int operands> std::vector<Example> examples() {
  auto all = [](Shape shape, DType type) {
    return std::vector<ExampleOperand>(operands, example(shape, type, -4, 4));
  };
  return {{.operands = all({3, 7}, DType::f32)},
          {.operands = all({5, 13}, DType::bf16)},
          {.operands = all({33, 1031}, DType::f32)}};
}

Cost cost(SpecSpan in, SpecSpan out, const Attrs&) {
  double bytes = double(out[0].bytes());
  for (const TensorSpec& spec : in) bytes += double(spec.bytes());
  return {25.0 * double(in[0].numel()), bytes};
}

}  // namespace

const OpDef silu_op{
    .name = "silu",
    .formula = "x / (1 + e^-x)",
    .infer = [](SpecSpan in, const Attrs&) { return infer_like_first("silu", in, 1); },
    .gradient =
        [](GradientArgs& g) {
          g.give(0, g.builder.emit1(silu_grad_op, {g.dy(), g.in(0)}));
        },
    .shares = {{0, 0}},
    .cost = cost,
    .cpu = {.run = [](const KernelArgs& a) { map_elements<1>(a, Silu{}); }},
    .cuda = &silu_cuda,
    .examples = examples<1>,
};

const OpDef silu_grad_op{
    .name = "silu_grad",
    .formula = "dy s (1 + x (1 - s)), s = 1 / (1 + e^-x)",
    .infer = [](SpecSpan in, const Attrs&) { return infer_like_first("silu_grad", in, 2); },
    .shares = {{0, 0}, {0, 1}},
    .cost = cost,
    .cpu = {.run = [](const KernelArgs& a) { map_elements<2>(a, SiluGrad{}); }},
    .cuda = &silu_grad_cuda,
    .examples = examples<2>,
};

const OpDef gelu_op{
    .name = "gelu",
    .formula = "x Phi(x), Phi the normal distribution's",
    .infer = [](SpecSpan in, const Attrs&) { return infer_like_first("gelu", in, 1); },
    .gradient =
        [](GradientArgs& g) {
          g.give(0, g.builder.emit1(gelu_grad_op, {g.dy(), g.in(0)}));
        },
    .shares = {{0, 0}},
    .cost = cost,
    .cpu = {.run = [](const KernelArgs& a) { map_elements<1>(a, Gelu{}); }},
    .cuda = &gelu_cuda,
    .examples = examples<1>,
};

const OpDef gelu_grad_op{
    .name = "gelu_grad",
    .formula = "dy (Phi(x) + x phi(x))",
    .infer = [](SpecSpan in, const Attrs&) { return infer_like_first("gelu_grad", in, 2); },
    .shares = {{0, 0}, {0, 1}},
    .cost = cost,
    .cpu = {.run = [](const KernelArgs& a) { map_elements<2>(a, GeluGrad{}); }},
    .cuda = &gelu_grad_cuda,
    .examples = examples<2>,
};

Val silu(Val x) { return x.builder->emit1(silu_op, {x}); }
Val gelu(Val x) { return x.builder->emit1(gelu_op, {x}); }

}  // namespace pal
