// silu: y = x s(x), dx = dy s (1 + x (1 - s)).   gelu: y = x Phi(x), dx = dy (Phi(x) + x phi(x)).
// gelu_tanh: y = x/2 (1 + t), dx = dy/2 (1 + t + x (1 - t^2) u'), t = tanh(u(x)).
#include "ops/elementwise/self_gated.h"

#include "core/gradient.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

Cost cost(SpecSpan in, SpecSpan out, const Attrs&) {
  return streaming_cost(25.0 * double(in[0].numel()), in, out);
}

// y = F(x), and the gradient's y = F(dy, x).
template <class F, const OpDef& gradient_op>
OpDef self_gated(const char* name, const char* formula, const Backend* cuda) {
  return map_op<1, F>({
      .name = name,
      .formula = formula,
      .gradient =
          [](GradientArgs& g) {
            g.give(0, g.builder.emit1(gradient_op, {g.dy(), g.in(0)}));
          },
      .cost = cost,
      .cuda = cuda,
      .examples = alike_examples<1>(DType::bf16, -4, 4),
  });
}
template <class F>
OpDef self_gated_grad(const char* name, const char* formula, const Backend* cuda) {
  return map_op<2, F>({.name = name,
                       .formula = formula,
                       .cost = cost,
                       .cuda = cuda,
                       .examples = alike_examples<2>(DType::bf16, -4, 4)});
}

}  // namespace

const OpDef silu_op = self_gated<Silu, silu_grad_op>("silu", "x / (1 + e^-x)", &silu_cuda);
const OpDef silu_grad_op = self_gated_grad<SiluGrad>(
    "silu_grad", "dy s (1 + x (1 - s)), s = 1 / (1 + e^-x)", &silu_grad_cuda);

const OpDef gelu_op =
    self_gated<Gelu, gelu_grad_op>("gelu", "x Phi(x), Phi the normal distribution's", &gelu_cuda);
const OpDef gelu_grad_op =
    self_gated_grad<GeluGrad>("gelu_grad", "dy (Phi(x) + x phi(x))", &gelu_grad_cuda);

const OpDef gelu_tanh_op = self_gated<GeluTanh, gelu_tanh_grad_op>(
    "gelu_tanh", "x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))", &gelu_tanh_cuda);
const OpDef gelu_tanh_grad_op = self_gated_grad<GeluTanhGrad>(
    "gelu_tanh_grad", "dy/2 (1 + t + x (1 - t^2) u'), t = tanh(u)", &gelu_tanh_grad_cuda);

Val silu(Val x) { return x.builder->emit1(silu_op, {x}); }
Val gelu(Val x) { return x.builder->emit1(gelu_op, {x}); }
Val gelu_tanh(Val x) { return x.builder->emit1(gelu_tanh_op, {x}); }

}  // namespace pal
