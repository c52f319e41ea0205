// y = max(op(a) op(b) + bias + c, 0), and d = (op(a) op(b) + c) [y > 0]: matmul's kernel, then that
// of relu or its gradient over the result where it lies, so that the bits are the two nodes'.
// (oneDNN's own relu makes +0 of -0 and hides NaNs.)
#include "ops/products/matmul_relu.h"

#include <array>
#include <limits>

#include "core/builder.h"
#include "ops/elementwise/activations.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/tiles.h"
#include "ops/products/matmul.h"

namespace pal {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

SpecSpan product_of(SpecSpan in) { return in.first(kReluResult); }

void run_relu(const KernelArgs& a) {
  matmul_op.cpu.run(a);
  map_elements<1>(with_operands(a, a.out, a.out_spec), Relu{});
}

void run_grad(const KernelArgs& a) {
  matmul_op.cpu.run({.in = a.in.first(kReluResult),
                     .out = a.out,
                     .in_spec = product_of(a.in_spec),
                     .out_spec = a.out_spec,
                     .attrs = a.attrs,
                     .state = a.state,
                     .workspace = a.workspace,
                     .queue = a.queue});
  const std::array<void*, 2> in{a.out[0], a.in[kReluResult]};
  const std::array<TensorSpec, 2> in_spec{a.out_spec[0], a.in_spec[kReluResult]};
  const PassInside above_zero(IntervalAttrs{});
  map_elements<2>(with_operands(a, in, in_spec), above_zero, above_zero.bit_meaning());
}

Specs infer_grad(SpecSpan in, const Attrs& attrs) {
  require(in.size() == kReluResult + 1, "takes a, b, c and y; c may be absent");
  Specs out = infer_matmul(product_of(in), attrs.as<MatmulAttrs>());
  const TensorSpec &y = in[kReluResult], &d = out[0];
  require(y.shape == d.shape && !y.layout && (y.dtype == d.dtype || y.dtype == DType::bit), y,
          ": want y like the result ", d, ", or its bits");
  return out;
}

Cost with_relu(Cost cost, SpecSpan out) {
  cost.flops += double(out[0].numel());
  return cost;
}
Cost cost_grad(SpecSpan in, SpecSpan out, const Attrs& attrs) {
  Cost cost = with_relu(matmul_op.cost(product_of(in), out, attrs), out);
  cost.bytes += double(in[kReluResult].bytes());
  return cost;
}

// A pattern is recorded from a product's operands, which are the fused node's first.
struct Recorded {
  Builder b;
  std::vector<Val> in;
  Val product;

  Recorded(SpecSpan specs, const Attrs& attrs) {
    for (const TensorSpec& spec : specs) {
      in.push_back(present(spec) ? b.input(std::to_string(in.size()), spec) : Val{});
    }
    product = b.emit1(matmul_op, in, attrs);
  }
  FusedPattern with(Val out, const Attrs& attrs) {
    FusedPattern pattern{.program = b.take(), .out = {out.id}, .attrs = attrs};
    for (Val v : in) pattern.in.push_back(v.id);
    return pattern;
  }
};

std::vector<FusedPattern> relu_patterns(SpecSpan in, const Attrs& attrs) {
  Recorded r(in, attrs);
  return {r.with(relu(r.product), attrs)};
}

std::vector<FusedPattern> grad_patterns(SpecSpan in, const Attrs& attrs) {
  std::vector<FusedPattern> out;
  if (in.size() != kReluResult) return out;  // with a bias it is no gradient
  for (const bool bits : {false, true}) {
    Recorded r(in, attrs);
    TensorSpec y = r.product.spec();
    if (bits) y.dtype = DType::bit;
    r.in.push_back(r.b.input("y", y));
    out.push_back(r.with(pass_inside(r.product, r.in.back(), 0, kInfinity), attrs));
  }
  return out;
}

std::vector<Example> grad_examples() {
  const DType f32 = DType::f32, bit = DType::bit, half = DType::bf16;
  const ExampleOperand no = absent_example();
  const MatmulAttrs plain, tb{.tb = true};
  return {
      {.operands = {example({5, 7}), example({3, 7}), no, example({5, 3})}, .attrs = tb},
      {.operands = {example({5, 7}), example({7, 11}), example({5, 11}), example({5, 11}, bit)},
       .attrs = plain},
      {.operands = {example({2, 3, 7}), example({128, 7}), no, example({2, 3, 128}, bit)},
       .attrs = tb},
      {.operands = {example({9, 4}), example({4, 256}), no, example({9, 256})}, .attrs = plain},
      {.operands = {example({6, 18}, half), example({18, 10}, half), no, example({6, 10}, half)},
       .attrs = MatmulAttrs{.dtype = half}},
      {.operands = {example({6, 18}, half), example({18, 10}, half), no, example({6, 10}, bit)},
       .attrs = plain},
      {.operands = {example({3, 5}, DType::f16), example({9, 5}, f32), example({3, 9}, DType::f16),
                    example({3, 9}, DType::f16)},
       .attrs = MatmulAttrs{.tb = true, .dtype = DType::f16}},
      {.operands = {example({3, 1}), example({1, 9}), no, example({3, 9})}, .attrs = plain},
      {.operands = {example({67, 129}), example({193, 129}), example({67, 193}),
                    example({67, 193})},
       .attrs = tb},
  };
}

}  // namespace

const Rewrite matmul_relu_rewrite{.op = &matmul_relu_op,
                                  .anchor = &matmul_op,
                                  .when = Rewrite::When::always,
                                  .patterns = relu_patterns};
const Rewrite matmul_relu_grad_rewrite{.op = &matmul_relu_grad_op,
                                       .anchor = &matmul_op,
                                       .when = Rewrite::When::always,
                                       .patterns = grad_patterns};

const OpDef matmul_relu_op{
    .name = "matmul_relu",
    .formula = "max(op(a)·op(b) + bias + c, 0)",
    .infer = [](SpecSpan in,
                const Attrs& attrs) { return infer_matmul(in, attrs.as<MatmulAttrs>()); },
    .optional_from = 2,
    .shares = {{0, 2}},
    .zeros = makes_zeros,
    .card_type = matmul_card_type,
    .cost = [](SpecSpan in, SpecSpan out, const Attrs& attrs) -> Cost {
      return with_relu(matmul_op.cost(in, out, attrs), out);
    },
    .cpu = {.run = run_relu,
            .prepare =
                [](const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
                  return matmul_op.cpu.prepare(device, in, out, attrs);
                }},
    .cuda = &matmul_relu_cuda,
    .examples = matmul_examples(),
};

const OpDef matmul_relu_grad_op{
    .name = "matmul_relu_grad",
    .formula = "op(a)·op(b) + c if y > 0 else 0",
    .infer = infer_grad,
    .optional_from = 2,
    .shares = {{0, 2}},
    .reads = [](int operand, const Attrs&) -> Reads {
      return operand == int(kReluResult) ? reads_predicate(0) : reads_values();
    },
    .zeros = makes_zeros,
    .cost = cost_grad,
    .cpu = {.run = run_grad,
            .prepare =
                [](const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
                  return matmul_op.cpu.prepare(device, product_of(in), out, attrs);
                }},
    .cuda = &matmul_relu_grad_cuda,
    .examples = grad_examples(),
};

}  // namespace pal
