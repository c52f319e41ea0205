// Ioffe & Szegedy 2015 over the N rows of C channels that belong to valid frames:
//   y = gamma (x - mean) rstd + beta;  y and dx are 0 in invalid frames.
// Sums go through chunks of frames that depend on the shape alone, in f32 within a chunk, shifted
// by its first row, and in double from chunk to chunk (Chan et al. 1979 for the squares).
#include "ops/norms/frame_norm.h"

#include <cmath>
#include <string>
#include <vector>

#include "core/gradient.h"
#include "core/rewrite.h"
#include "ops/kernels/operands.h"
#include "ops/norms/frame_rows.h"
#include "ops/norms/norm_kernel.h"
#include "ops/norms/norm_over_ranks.h"

namespace pal {
namespace {

bool is_batch_first(const Attrs& attrs) { return attrs.as<FrameNormAttrs>().batch_first; }
FrameRows frames_of(const KernelArgs& a) {
  return {a.in_spec[0], is_batch_first(a.attrs), a.input<int32_t>(3)};
}

// Then two numbers per channel.
Prepared prepare(const Device&, SpecSpan in, SpecSpan, const Attrs& attrs) {
  const FrameRows q(in[0], is_batch_first(attrs), nullptr);
  return {.workspace = (moments_workspace(q) + 2 * q.channels) * 4};
}

// x, gamma, beta, lengths -> y, mean, rstd, variance
template <class T> void forward(const KernelArgs& a) {
  const FrameRows q = frames_of(a);
  const int64_t channels = q.channels;
  const T* x = a.input<T>(0);
  const float* gamma = a.input(1);
  float* partial = reinterpret_cast<float*>(a.workspace);
  float* scale = partial + moments_workspace(q);
  float* mean = a.out[1] ? a.output(1) : scale + channels;
  float* rstd = a.out[2] ? a.output(2) : scale;  // may be written over, channel by channel
  row_moments(a.queue, q, x, partial,
              Moments{mean, rstd, a.output(3), a.attrs.as<FrameNormAttrs>().eps});
  if (!a.out[0]) return;
  for (int64_t c = 0; c < channels; ++c) scale[c] = gamma[c] * rstd[c];
  normalize(a.queue, q, x, mean, scale, a.input(2), a.output<T>(0));
}
void run_forward(const KernelArgs& a) {
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) { forward<T>(a); });
}

// x, gamma, beta, lengths, mean, variance -> y
void run_infer(const KernelArgs& a) {
  const FrameRows q = frames_of(a);
  const float *gamma = a.input(1), *variance = a.input(5);
  float* scale = reinterpret_cast<float*>(a.workspace);
  const float eps = a.attrs.as<FrameNormAttrs>().eps;
  for (int64_t c = 0; c < q.channels; ++c) scale[c] = gamma[c] / std::sqrt(variance[c] + eps);
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    normalize(a.queue, q, a.input<T>(0), a.input(4), scale, a.input(2), a.output<T>(0));
  });
}

// x, gamma, beta, lengths, mean, rstd -> y
void run_apply(const KernelArgs& a) {
  const FrameRows q = frames_of(a);
  const float *gamma = a.input(1), *rstd = a.input(5);
  float* scale = reinterpret_cast<float*>(a.workspace);
  for (int64_t c = 0; c < q.channels; ++c) scale[c] = gamma[c] * rstd[c];
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    normalize(a.queue, q, a.input<T>(0), a.input(4), scale, a.input(2), a.output<T>(0));
  });
}

// dy, x, gamma, lengths, mean, rstd -> dx, dgamma, dbeta
void run_gradient(const KernelArgs& a) {
  const FrameRows q = frames_of(a);
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) { norm_gradient<T>(a, q, 4); });
}

// `images` operands like the first, then vectors of its channels, with lengths in place 3.
void check(SpecSpan in, size_t images, size_t count, const Attrs& attrs) {
  const int batch_axis = is_batch_first(attrs) ? 0 : 1;
  require_norm_operands(in, images, count, batch_axis);
}

ExampleOperand lengths(int64_t batch, int64_t least, int64_t most) {
  return example({batch}, DType::i32, float(least), float(most));
}

// As norm_operands, with the lengths in their place.
std::vector<ExampleOperand> frame_operands(const Shape& x, size_t images, size_t vectors,
                                           ExampleOperand lengths, DType type = DType::f32) {
  std::vector<ExampleOperand> operands = norm_operands(x, images, vectors, type);
  operands.insert(operands.begin() + 3, std::move(lengths));
  return operands;
}

// The batches of so many ranks: x, gamma, beta, lengths.
FusedPattern over_ranks(SpecSpan in, const Attrs& attrs, int64_t ranks) {
  const auto [eps, batch_first] = attrs.as<FrameNormAttrs>();
  Builder b;
  const Val x = b.input("x", in[0]), gamma = b.input("gamma", in[1]), beta = b.input("beta", in[2]),
            lengths = b.input("lengths", in[3]);
  const NormStatistics s = statistics_over_ranks(x, lengths, eps, {batch_first}, ranks);
  const Val y = b.emit1(frame_norm_apply_op, {x, gamma, beta, lengths, s.mean, s.rstd}, attrs);
  return {.program = b.take(),
          .in = {x.id, gamma.id, beta.id, lengths.id},
          .out = {y.id, s.mean.id, s.rstd.id, s.variance.id}};
}
// dy, x, gamma, lengths, mean, rstd
FusedPattern gradient_over_ranks(SpecSpan in, const Attrs& attrs, int64_t ranks) {
  Builder b;
  std::vector<Val> v;
  for (const TensorSpec& spec : in) v.push_back(b.input(std::to_string(v.size()), spec));
  b.set_phase(Phase::backward);
  const NormGradients g = gradients_over_ranks(
      {.dy = v[0], .x = v[1], .gamma = v[2], .mean = v[4], .rstd = v[5], .lengths = v[3]},
      {is_batch_first(attrs)}, ranks);
  FusedPattern out{.program = b.take(), .out = {g.dx.id, g.dgamma.id, g.dbeta.id}};
  for (const Val each : v) out.in.push_back(each.id);
  return out;
}

// Of operators that take mean and variance as operands.
std::vector<Example> examples_of_statistics() {
  return {
      {.operands = frame_operands({4, 3, 5}, 1, 4, lengths(3, 0, 4)), .attrs = FrameNormAttrs{}},
      {.operands = frame_operands({5, 111, 150}, 1, 4, lengths(5, 0, 111)),
       .attrs = FrameNormAttrs{0.1f, true}},
      {.operands = frame_operands({4, 3, 24}, 1, 4, lengths(3, 0, 4), DType::bf16),
       .attrs = FrameNormAttrs{}},
      {.operands = frame_operands({4, 3, 5}, 1, 4, lengths(3, 0, 4), DType::f16),
       .attrs = FrameNormAttrs{}}};
}

}  // namespace

const OpDef frame_norm_op{
    .name = "frame_norm",
    .formula = "gamma (x - mean) rstd + beta in valid frames, 0 elsewhere; mean, rstd, variance",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      check(in, 1, 4, attrs);
      return {in[0], in[1], in[1], in[1]};
    },
    .gradient =
        [](GradientArgs& g) {
          if (!g.dy()) return;
          g.give_all(g.builder.emit(frame_norm_grad_op,
                                    {g.dy(), g.in(0), g.in(1), g.in(3), g.out(1), g.out(2)},
                                    g.node.attrs));
        },
    .shares = {{0, 0}},
    .cost = norm_cost<8, 3>,
    .over_ranks = over_ranks,
    .cpu = {.run = run_forward, .prepare = prepare},
    .cuda = &frame_norm_cuda,
    .examples =
        {{.operands = {example({4, 3, 5}), example({5}), example({5}), lengths(3, 2, 4)},
          .attrs = FrameNormAttrs{}},
         {.operands = {example({3, 4, 2, 5}), example({5}), example({5}), lengths(3, 1, 4)},
          .attrs = FrameNormAttrs{0.1f, true},
          .unread = {0, 1, 1, 0}},
         {.operands = {example({37, 5, 150}), example({150}), example({150}), lengths(5, 0, 37)},
          .attrs = FrameNormAttrs{}},
         {.operands = {half_example({3, 4, 2, 24}), example({24}), example({24}), lengths(3, 1, 4)},
          .attrs = FrameNormAttrs{1e-5f, true}},
         {.operands = {half_example({37, 5, 50}, DType::f16), example({50}), example({50}),
                       lengths(5, 1, 37)},
          .attrs = FrameNormAttrs{}}},
};

const OpDef frame_norm_grad_op{
    .name = "frame_norm_grad",
    .formula = "dx, dgamma, dbeta of gamma (x - mean) rstd + beta in valid frames",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      check(in, 2, 6, attrs);
      return {in[0], in[2], in[2]};
    },
    .shares = {{0, 0}, {0, 1}},
    .cost = norm_cost<11, 5>,
    .over_ranks = gradient_over_ranks,
    .cpu = {.run = run_gradient, .prepare = prepare},
    .cuda = &frame_norm_grad_cuda,
    .examples = {{.operands = frame_operands({4, 3, 5}, 2, 3, lengths(3, 0, 4)),
                  .attrs = FrameNormAttrs{}},
                 {.operands = frame_operands({3, 4, 2, 5}, 2, 3, lengths(3, 0, 4)),
                  .attrs = FrameNormAttrs{0.1f, true},
                  .unread = {1, 0, 0}},
                 {.operands = frame_operands({37, 5, 150}, 2, 3, lengths(5, 0, 37)),
                  .attrs = FrameNormAttrs{},
                  .unread = {0, 0, 1}},
                 {.operands = frame_operands({3, 4, 2, 24}, 2, 3, lengths(3, 0, 4), DType::bf16),
                  .attrs = FrameNormAttrs{1e-5f, true}},
                 {.operands = frame_operands({37, 5, 50}, 2, 3, lengths(5, 0, 37), DType::f16),
                  .attrs = FrameNormAttrs{}}},
};

const OpDef frame_norm_apply_op{
    .name = "frame_norm_apply",
    .formula = "gamma (x - mean) rstd + beta in valid frames, 0 elsewhere",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      check(in, 1, 6, attrs);
      return {in[0]};
    },
    .shares = {{0, 0}},
    .cost = norm_cost<3, 2>,
    .cpu = {.run = run_apply, .prepare = prepare_channels},
    .cuda = &frame_norm_apply_cuda,
    .examples = examples_of_statistics(),
};

const OpDef frame_norm_infer_op{
    .name = "frame_norm_infer",
    .formula = "gamma (x - mean) / sqrt(variance + eps) + beta in valid frames, 0 elsewhere",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      check(in, 1, 6, attrs);
      return {in[0]};
    },
    .shares = {{0, 0}},
    .cpu = {.run = run_infer, .prepare = prepare_channels},
    .cuda = &frame_norm_infer_cuda,
    .examples = examples_of_statistics(),
};

FrameNorm frame_norm(Val x, Val gamma, Val beta, Val lengths, FrameNormAttrs attrs) {
  const auto out = x.builder->emit(frame_norm_op, {x, gamma, beta, lengths}, attrs);
  for (size_t i : {1, 2, 3}) x.builder->program().value(out[i].id).role = Role::statistic;
  return {out[0], out[1], out[2], out[3]};
}

Val frame_norm_infer(Val x, Val gamma, Val beta, Val lengths, Val mean, Val variance,
                     FrameNormAttrs attrs) {
  return x.builder->emit1(frame_norm_infer_op, {x, gamma, beta, lengths, mean, variance}, attrs);
}

}  // namespace pal
