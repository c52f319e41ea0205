// y = max(gamma (x - mean) rstd + beta (+ residual), 0), and the gradient without residual:
// batch_norm_grad of dy where y > 0, with y from x again.
#include "ops/norms/batch_norm_relu.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/builder.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/tiles.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/norm_kernel.h"
#include "ops/norms/rectified.h"

namespace pal {
namespace {

constexpr size_t kResidual = 3, kGradOperands = 6;

void run_forward(const KernelArgs& a) {
  const BatchScale s = batch_scale(a, a.attrs.as<BatchNormAttrs>().eps);
  if (!a.out[0]) return;
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    const auto with = [&](auto f) {
      normalize(a.queue, AllRows(a.in_spec[0]), a.input<T>(0), s.mean, s.scale, a.input(2),
                a.output<T>(0), f);
    };
    const T* residual = input_if_present<T>(a, kResidual);
    residual ? with(RectifiedSum<T>{residual}) : with(Rectified{});
  });
}

// Operands dy, x, gamma, mean, rstd, beta.
void run_gradient(const KernelArgs& a) {
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    norm_gradient<T>(a, AllRows(a.in_spec[0]), 3,
                     RectifiedGrad<T>{a.input(2), a.input(5), a.input(3), a.input(4)});
  });
}

enum class Form { sum_first, sum_second, alone };
Val rectified(Form form, Val y, Val residual) {
  return relu(form == Form::alone       ? y
              : form == Form::sum_first ? add(y, residual)
                                        : add(residual, y));
}

// relu(norm), relu(norm + residual), relu(residual + norm).
std::vector<FusedPattern> patterns(SpecSpan in, const Attrs& attrs) {
  std::vector<FusedPattern> out;
  for (const Form form : {Form::sum_first, Form::sum_second, Form::alone}) {
    Builder b;
    const Val x = b.input("x", in[0]), gamma = b.input("gamma", in[1]);
    const Val beta = b.input("beta", in[2]);
    const Val residual = form == Form::alone ? Val{} : b.input("residual", in[0]);
    const std::vector<Val> norm = b.emit(batch_norm_op, {x, gamma, beta}, attrs);
    const Val z = rectified(form, norm[0], residual);
    out.push_back({.program = b.take(),
                   .in = {x.id, gamma.id, beta.id},
                   .out = {z.id, norm[1].id, norm[2].id, norm[3].id},
                   .attrs = attrs});
    if (form != Form::alone) out.back().in.push_back(residual.id);
  }
  return out;
}
// The same of a norm with given statistics: batch_norm's last part, or of a batch over ranks.
std::vector<FusedPattern> apply_patterns(SpecSpan in, const Attrs& attrs) {
  if (attrs.as<BatchNormApplyAttrs>().relu) return {};
  std::vector<FusedPattern> out;
  for (const Form form : {Form::sum_first, Form::sum_second, Form::alone}) {
    Builder b;
    std::vector<Val> v;
    for (const TensorSpec& spec : in) v.push_back(b.input(std::to_string(v.size()), spec));
    const Val residual = form == Form::alone ? Val{} : b.input("residual", in[0]);
    const Val z = rectified(form, b.emit1(batch_norm_apply_op, v, attrs), residual);
    out.push_back({.program = b.take(), .out = {z.id}, .attrs = BatchNormApplyAttrs{true}});
    for (const Val each : v) out.back().in.push_back(each.id);
    if (form != Form::alone) out.back().in.push_back(residual.id);
  }
  return out;
}

// The gradients of relu and of the norm before it, which are there and stay.
std::vector<FusedPattern> grad_patterns(SpecSpan in, const Attrs& attrs) {
  Builder b;
  const Val x = b.input("x", in[0]), gamma = b.input("gamma", in[1]), beta = b.input("beta", in[2]);
  const Val dy = b.input("dy", in[0]);
  const std::vector<Val> norm = b.emit(batch_norm_op, {x, gamma, beta}, attrs);
  const Val y = relu(norm[0]);
  std::vector<NodeId> given;
  for (const NodeId n : b.program().nodes.ids()) given.push_back(n);
  b.set_phase(Phase::backward);
  const IntervalAttrs interval;
  const Val d = pass_inside(dy, y, interval.lo, interval.hi);
  const std::vector<Val> out = b.emit(batch_norm_grad_op, {d, x, gamma, norm[1], norm[2]});
  return {{.program = b.take(),
           .in = {dy.id, x.id, gamma.id, norm[1].id, norm[2].id, beta.id},
           .out = {out[0].id, out[1].id, out[2].id},
           .given = std::move(given)}};
}

std::vector<ExampleOperand> forward_operands(const Shape& x, DType type, bool residual) {
  const Shape channels{x.back()};
  std::vector<ExampleOperand> out{example(x, type), example(channels), example(channels)};
  if (residual) out.push_back(example(x, type));
  return out;
}
// dy, x, then vectors from 0.5 on, beta around 0, so that some of y is below it.
std::vector<ExampleOperand> grad_operands(const Shape& x, DType type = DType::f32) {
  std::vector<ExampleOperand> out = norm_operands(x, 2, 3, type);
  out.push_back(example({x.back()}));
  return out;
}

}  // namespace

const Rewrite batch_norm_relu_rewrite{.op = &batch_norm_relu_op,
                                      .anchor = &batch_norm_op,
                                      .when = Rewrite::When::always,
                                      .patterns = patterns};
const Rewrite batch_norm_apply_relu_rewrite{.op = &batch_norm_apply_op,
                                            .anchor = &batch_norm_apply_op,
                                            .when = Rewrite::When::always,
                                            .patterns = apply_patterns};
const Rewrite batch_norm_relu_grad_rewrite{.op = &batch_norm_relu_grad_op,
                                           .anchor = &batch_norm_op,
                                           .when = Rewrite::When::first,
                                           .patterns = grad_patterns};
const OpDef batch_norm_relu_op{
    .name = "batch_norm_relu",
    .formula = "max(gamma (x - mean) rstd + beta (+ residual), 0); mean, rstd, variance",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() <= kResidual + 1, "takes 3 or 4 operands");
      require_norm_operands(in.first(std::min(in.size(), kResidual)), 1, kResidual);
      const bool sum = in.size() > kResidual && present(in[kResidual]);
      require(!sum || in[kResidual] == in[0], "operand 3 should be ", in[0], ", is ", in.back());
      return {in[0], in[1], in[1], in[1]};
    },
    .optional_from = kResidual,
    .shares = {{0, 0}, {0, kResidual}},
    .zeros = makes_zeros,
    .cost = [](SpecSpan in, SpecSpan, const Attrs&) -> Cost {
      const double added = in.size() > kResidual && present(in[kResidual]) ? 1 : 0;
      return {.flops = (9 + added) * double(in[0].numel()),
              .bytes = (3 + added) * double(in[0].bytes())};
    },
    .cpu = {.run = run_forward, .prepare = prepare_batch_norm},
    .cuda = &batch_norm_relu_cuda,
    .examples = {{.operands = forward_operands({2, 3, 3, 5}, DType::f32, false),
                  .attrs = BatchNormAttrs{}},
                 {.operands = forward_operands({7, 19}, DType::f32, true),
                  .attrs = BatchNormAttrs{0.1f},
                  .unread = {0, 1, 1, 0}},
                 {.operands = forward_operands({3, 37, 5, 150}, DType::f32, true),
                  .attrs = BatchNormAttrs{}},
                 {.operands = forward_operands({5, 9, 24}, DType::bf16, true),
                  .attrs = BatchNormAttrs{}},
                 {.operands = forward_operands({3, 37, 5, 150}, DType::f16, false),
                  .attrs = BatchNormAttrs{0.1f}}},
};

const OpDef batch_norm_relu_grad_op{
    .name = "batch_norm_relu_grad",
    .formula = "dx, dgamma, dbeta of max(gamma (x - mean) rstd + beta, 0)",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_norm_operands(in, 2, kGradOperands);
      return {in[0], in[2], in[2]};
    },
    .shares = {{0, 0}, {0, 1}},
    .cost = norm_cost<17, 5>,
    .cpu = {.run = run_gradient, .prepare = prepare_batch_norm},
    .cuda = &batch_norm_relu_grad_cuda,
    .examples = {{.operands = grad_operands({2, 3, 3, 5})},
                 {.operands = grad_operands({7, 19}), .unread = {1, 0, 0}},
                 {.operands = grad_operands({3, 37, 5, 150}), .unread = {0, 0, 1}},
                 {.operands = grad_operands({5, 9, 24}, DType::bf16)},
                 {.operands = grad_operands({3, 37, 5, 150}, DType::f16)}},
};

}  // namespace pal
