// Batch norm as two nodes, which batch_norm is where something is recomputed:
//   statistics: mean, rstd and variance of the batch.   apply: y = gamma (x - mean) rstd + beta.
// The first leaves three numbers a channel, so that a clone of the second makes a feature map again
// with one pass over x. Folded into the clones that read it: y = max(y (+ residual), 0).
#include <algorithm>

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

constexpr size_t kResidual = 5;  // apply's last operand

void run_statistics(const KernelArgs& a) {
  const AllRows q(a.in_spec[0]);
  float* partial = reinterpret_cast<float*>(a.workspace);
  float* unread = partial + q.chunks() * 2 * q.channels;
  batch_moments(a.queue, a.in[0], a.in_spec[0], partial,
                {a.out[0] ? a.output(0) : unread, a.out[1] ? a.output(1) : unread + q.channels,
                 a.output(2), a.attrs.as<BatchNormAttrs>().eps});
}

template <class T> void apply(const KernelArgs& a, const float* scale) {
  auto with = [&](auto f) {
    normalize(a.queue, AllRows(a.in_spec[0]), a.input<T>(0), a.input(3), scale, a.input(2),
              a.output<T>(0), f);
  };
  if (auto* residual = input_if_present<T>(a, kResidual)) return with(RectifiedSum<T>{residual});
  a.attrs.as<BatchNormApplyAttrs>().relu ? with(Rectified{}) : with(AsItIs{});
}
void run_apply(const KernelArgs& a) {
  const float *gamma = a.input(1), *rstd = a.input(4);
  float* scale = reinterpret_cast<float*>(a.workspace);
  for (int64_t c = 0; c < a.in_spec[0].shape.back(); ++c) scale[c] = gamma[c] * rstd[c];
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) { apply<T>(a, scale); });
}

// relu(apply), relu(apply + residual), relu(residual + apply); all of them clones.
std::vector<FusedPattern> patterns(SpecSpan in, const Attrs& attrs) {
  if (attrs.as<BatchNormApplyAttrs>().relu) return {};
  enum Form { first, second, alone };
  std::vector<FusedPattern> out;
  for (const Form form : {first, second, alone}) {
    Builder b;
    const Val x = b.input("x", in[0]), gamma = b.input("gamma", in[1]);
    const Val beta = b.input("beta", in[2]), mean = b.input("mean", in[3]);
    const Val rstd = b.input("rstd", in[4]);
    const Val residual = form == alone ? Val{} : b.input("residual", in[0]);
    b.set_phase(Phase::recompute);
    const Val y = b.emit1(batch_norm_apply_op, {x, gamma, beta, mean, rstd}, attrs);
    const Val sum = form == alone ? y : form == first ? add(y, residual) : add(residual, y);
    const Val z = relu(sum);
    out.push_back({.program = b.take(),
                   .in = {x.id, gamma.id, beta.id, mean.id, rstd.id},
                   .out = {z.id},
                   .attrs = BatchNormApplyAttrs{true}});
    if (form != alone) out.back().in.push_back(residual.id);
  }
  return out;
}

// x, gamma, beta, mean, rstd.
std::vector<ExampleOperand> apply_operands(const Shape& x, DType type = DType::f32) {
  std::vector<ExampleOperand> operands{example(x, type)};
  operands.resize(kResidual, example({x.back()}, DType::f32, -1, 2));
  return operands;
}
std::vector<ExampleOperand> with_residual(const Shape& x, DType type = DType::f32) {
  std::vector<ExampleOperand> operands = apply_operands(x, type);
  operands.push_back(example(x, type));
  return operands;
}
const BatchNormApplyAttrs kPlain{}, kRelu{true};

}  // namespace

const Rewrite batch_norm_apply_rewrite{
    .op = &batch_norm_apply_op, .anchor = &batch_norm_apply_op, .patterns = patterns};

const OpDef batch_norm_statistics_op{
    .name = "batch_norm_statistics",
    .formula = "mean, rstd, variance of the batch",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_norm_operands(in, 1, 1);
      const TensorSpec channels{{in[0].shape.back()}};
      return {channels, channels, channels};
    },
    .cost = norm_cost<4, 1>,
    .cpu = {.run = run_statistics, .prepare = prepare_batch_norm},
    .cuda = &batch_norm_statistics_cuda,
    .examples = {{.operands = {example({2, 3, 3, 5})}, .attrs = BatchNormAttrs{}},
                 {.operands = {example({7, 19})},
                  .attrs = BatchNormAttrs{0.1f},
                  .unread = {1, 0, 1}},
                 {.operands = {example({3, 37, 5, 150})}, .attrs = BatchNormAttrs{}},
                 {.operands = {example({5, 9, 24}, DType::bf16)}, .attrs = BatchNormAttrs{}},
                 {.operands = {example({3, 37, 5, 150}, DType::f16)}, .attrs = BatchNormAttrs{}}},
};

const OpDef batch_norm_apply_op{
    .name = "batch_norm_apply",
    .formula = "gamma (x - mean) rstd + beta; relu: max(that (+ residual), 0)",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      const bool sum = in.size() > kResidual && present(in[kResidual]);
      require(in.size() <= kResidual + 1, "takes 5 or 6 operands");
      require_norm_operands(in.first(std::min(in.size(), kResidual)), 1, kResidual);
      require(!sum || attrs.as<BatchNormApplyAttrs>().relu, "only relu adds a residual");
      require(!sum || in[kResidual] == in[0], "operand 5 should be ", in[0], ", is ", in.back());
      return {in[0]};
    },
    .optional_from = kResidual,
    .shares = {{0, 0}, {0, kResidual}},
    .rows = [](const Attrs&) -> Rows { return {.operands = 1 | 1u << kResidual}; },
    .cost = [](SpecSpan in, SpecSpan, const Attrs&) -> Cost {
      const double images = in.size() > kResidual && present(in[kResidual]) ? 3 : 2;
      return {.flops = (images + 1) * double(in[0].numel()),
              .bytes = images * double(in[0].bytes())};
    },
    .cpu = {.run = run_apply, .prepare = prepare_channels},
    .cuda = &batch_norm_apply_cuda,
    .examples = {{.operands = apply_operands({2, 3, 3, 5}), .attrs = kPlain},
                 {.operands = apply_operands({7, 19}), .attrs = kRelu},
                 {.operands = with_residual({7, 19}), .attrs = kRelu},
                 {.operands = apply_operands({3, 37, 5, 150}), .attrs = kPlain},
                 {.operands = with_residual({3, 37, 5, 150}), .attrs = kRelu},
                 {.operands = apply_operands({5, 9, 24}, DType::bf16), .attrs = kPlain},
                 {.operands = apply_operands({7, 19}, DType::f16), .attrs = kRelu},
                 {.operands = with_residual({5, 9, 24}, DType::bf16), .attrs = kRelu}},
};

}  // namespace pal
