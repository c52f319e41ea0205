// Ioffe & Szegedy 2015, algorithm 1:  y = gamma xhat + beta,  xhat = (x - mean) rstd,  over R rows.
// Its gradient, and how sums go through chunks of rows that depend on the shape alone, are frame
// norm's too (ops/norms/norm_kernel.h).
#include "ops/norms/batch_norm.h"

#include <cmath>
#include <string>
#include <utility>

#include "core/gradient.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/tiles.h"
#include "ops/norms/norm_kernel.h"
#include "ops/norms/norm_over_ranks.h"

namespace pal {
namespace {

// Operand 0 into output 0, with operand 2 as beta.
void normalize(const KernelArgs& a, const float* mean, const float* scale) {
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    pal::normalize(a.queue, AllRows(a.in_spec[0]), a.input<T>(0), mean, scale, a.input(2),
                   a.output<T>(0));
  });
}

void run_forward(const KernelArgs& a) {
  const BatchScale s = batch_scale(a, a.attrs.as<BatchNormAttrs>().eps);
  if (a.out[0]) normalize(a, s.mean, s.scale);
}

void run_infer(const KernelArgs& a) {
  const int64_t channels = a.in_spec[0].shape.back();
  const float *gamma = a.input(1), *variance = a.input(4);
  float* scale = reinterpret_cast<float*>(a.workspace);
  const float eps = a.attrs.as<BatchNormAttrs>().eps;
  for (int64_t c = 0; c < channels; ++c) scale[c] = gamma[c] / std::sqrt(variance[c] + eps);
  normalize(a, a.input(3), scale);
}

// Operands dy, x, gamma, mean, rstd.
void run_gradient(const KernelArgs& a) {
  by_float_type(a.in_spec[0].dtype,
                [&]<class T>(T) { norm_gradient<T>(a, AllRows(a.in_spec[0]), 3); });
}

// Statistics, then what they are applied to: a clone of the last reads those that were kept.
std::vector<FusedPattern> parts(SpecSpan in, const Attrs& attrs) {
  Builder b;
  const Val x = b.input("x", in[0]), gamma = b.input("gamma", in[1]), beta = b.input("beta", in[2]);
  const std::vector<Val> s = b.emit(batch_norm_statistics_op, {x}, attrs);
  const Val y = b.emit1(batch_norm_apply_op, {x, gamma, beta, s[0], s[1]}, BatchNormApplyAttrs{});
  return {{.program = b.take(),
           .in = {x.id, gamma.id, beta.id},
           .out = {y.id, s[0].id, s[1].id, s[2].id}}};
}

// The batches of so many ranks: x, gamma, beta.
FusedPattern over_ranks(SpecSpan in, const Attrs& attrs, int64_t ranks) {
  Builder b;
  const Val x = b.input("x", in[0]), gamma = b.input("gamma", in[1]), beta = b.input("beta", in[2]);
  const NormStatistics s = statistics_over_ranks(x, {}, attrs.as<BatchNormAttrs>().eps, {}, ranks);
  const Val y =
      b.emit1(batch_norm_apply_op, {x, gamma, beta, s.mean, s.rstd}, BatchNormApplyAttrs{});
  return {.program = b.take(),
          .in = {x.id, gamma.id, beta.id},
          .out = {y.id, s.mean.id, s.rstd.id, s.variance.id}};
}
// dy, x, gamma, mean, rstd
FusedPattern gradient_over_ranks(SpecSpan in, const Attrs&, int64_t ranks) {
  Builder b;
  std::vector<Val> v;
  for (const TensorSpec& spec : in) v.push_back(b.input(std::to_string(v.size()), spec));
  b.set_phase(Phase::backward);
  const NormGradients g = gradients_over_ranks(
      {.dy = v[0], .x = v[1], .gamma = v[2], .mean = v[3], .rstd = v[4]}, {}, ranks);
  FusedPattern out{.program = b.take(), .out = {g.dx.id, g.dgamma.id, g.dbeta.id}};
  for (const Val each : v) out.in.push_back(each.id);
  return out;
}

}  // namespace

const Rewrite batch_norm_in_parts{.op = &batch_norm_op,
                                  .anchor = &batch_norm_op,
                                  .when = Rewrite::When::split,
                                  .patterns = parts};

const OpDef batch_norm_op{
    .name = "batch_norm",
    .formula = "gamma (x - mean) rstd + beta; mean, rstd, variance of the batch",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_norm_operands(in, 1, 3);
      return {in[0], in[1], in[1], in[1]};
    },
    .gradient =
        [](GradientArgs& g) {
          if (!g.dy()) return;
          g.give_all(
              g.builder.emit(batch_norm_grad_op, {g.dy(), g.in(0), g.in(1), g.out(1), g.out(2)}));
        },
    .shares = {{0, 0}},
    .cost = norm_cost<8, 3>,
    .over_ranks = over_ranks,
    .cpu = {.run = run_forward, .prepare = prepare_batch_norm},
    .cuda = &batch_norm_cuda,
    .examples = {{.operands = {example({2, 3, 3, 5}), example({5}), example({5})},
                  .attrs = BatchNormAttrs{}},
                 {.operands = {example({7, 19}), example({19}), example({19})},
                  .attrs = BatchNormAttrs{0.1f},
                  .unread = {0, 1, 1, 0}},
                 {.operands = {example({3, 37, 5, 150}), example({150}), example({150})},
                  .attrs = BatchNormAttrs{}},
                 {.operands = {half_example({5, 9, 24}), example({24}), example({24})},
                  .attrs = BatchNormAttrs{}},
                 {.operands = {half_example({3, 37, 5, 150}, DType::f16), example({150}),
                               example({150})},
                  .attrs = BatchNormAttrs{0.1f}}},
};

const OpDef batch_norm_grad_op{
    .name = "batch_norm_grad",
    .formula = "dx, dgamma, dbeta of gamma (x - mean) rstd + beta",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_norm_operands(in, 2, 5);
      return {in[0], in[2], in[2]};
    },
    .shares = {{0, 0}, {0, 1}},
    .cost = norm_cost<11, 5>,
    .over_ranks = gradient_over_ranks,
    .cpu = {.run = run_gradient, .prepare = prepare_batch_norm},
    .cuda = &batch_norm_grad_cuda,
    .examples = {{.operands = norm_operands({2, 3, 3, 5}, 2, 3)},
                 {.operands = norm_operands({7, 19}, 2, 3), .unread = {1, 0, 0}},
                 {.operands = norm_operands({3, 37, 5, 150}, 2, 3), .unread = {0, 0, 1}},
                 {.operands = norm_operands({5, 9, 24}, 2, 3, DType::bf16)},
                 {.operands = norm_operands({3, 37, 5, 150}, 2, 3, DType::f16)}},
};

const OpDef batch_norm_infer_op{
    .name = "batch_norm_infer",
    .formula = "gamma (x - mean) / sqrt(variance + eps) + beta",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_norm_operands(in, 1, 5);
      return {in[0]};
    },
    .shares = {{0, 0}},
    .rows = rows_of_first,
    .cpu = {.run = run_infer, .prepare = prepare_channels},
    .cuda = &batch_norm_infer_cuda,
    .examples = {{.operands = norm_operands({2, 3, 3, 5}, 1, 4), .attrs = BatchNormAttrs{}},
                 {.operands = norm_operands({511, 150}, 1, 4), .attrs = BatchNormAttrs{0.1f}},
                 {.operands = norm_operands({9, 24}, 1, 4, DType::bf16), .attrs = BatchNormAttrs{}},
                 {.operands = norm_operands({511, 15}, 1, 4, DType::f16),
                  .attrs = BatchNormAttrs{}}},
};

BatchNorm batch_norm(Val x, Val gamma, Val beta, float eps) {
  const auto out = x.builder->emit(batch_norm_op, {x, gamma, beta}, BatchNormAttrs{eps});
  for (size_t i : {1, 2, 3}) x.builder->program().value(out[i].id).role = Role::statistic;
  return {out[0], out[1], out[2], out[3]};
}

Val batch_norm_infer(Val x, Val gamma, Val beta, Val mean, Val variance, float eps) {
  return x.builder->emit1(batch_norm_infer_op, {x, gamma, beta, mean, variance},
                          BatchNormAttrs{eps});
}

}  // namespace pal
