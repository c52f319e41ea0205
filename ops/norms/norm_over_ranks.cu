// A rank's sums over its rows, and the elements that what all ranks say is applied to: the kernels
// of batch_norm and frame_norm. What ranks say is added up by a thread a channel, as on the CPU.
#include "ops/kernels/operands.h"
#include "ops/norms/cuda_norm.h"
#include "ops/norms/cuda_norm_grad.h"
#include "ops/norms/cuda_norm_rows.h"
#include "ops/norms/norm_over_ranks.h"

namespace pal {
namespace {

FrameRows frame_rows(const TensorSpec& x, const Attrs& attrs, const int32_t* lengths) {
  return {x, attrs.as<NormRowsAttrs>().batch_first, lengths};
}
// f(rows, which of them count) of operand 0.
template <class F> void by_norm_rows(const KernelArgs& a, size_t lengths, F f) {
  const auto* of_frames = input_if_present<int32_t>(a, lengths);
  if (!of_frames) return f(all_norm_rows(a.in_spec[0]), EveryRow{});
  const FrameRows frames = frame_rows(a.in_spec[0], a.attrs, of_frames);
  f(norm_rows(frames), ValidRows{frames});
}
template <size_t lengths>
Prepared prepare_rank_sums(const Device&, SpecSpan in, SpecSpan, const Attrs& attrs) {
  return prepare_norm(present(in, lengths) ? norm_rows(frame_rows(in[0], attrs, nullptr))
                                           : all_norm_rows(in[0]));
}
RankSums rank_sums_of(const KernelArgs& a, size_t operand) {
  const Shape& shape = a.in_spec[operand].shape;
  return {a.input(operand), shape[0], (shape[1] - 1) / 2};
}

void run_norm_moments(const KernelArgs& a) {
  by_norm_rows(a, kLengthsOfMoments, [&](const NormRows& r, auto valid) {
    norm_moments(a, r, valid, 0, {.own = a.output(0)});
  });
}

__global__ void over_ranks_kernel(RankSums all, float* mean, float* rstd, float* variance,
                                  float eps) {
  const int64_t c = thread_number();
  if (c < all.channels) all.put_moments(c, eps, mean, rstd, variance);
}
void run_moments_over_ranks(const KernelArgs& a) {
  const RankSums all = rank_sums_of(a, 0);
  launch(over_ranks_kernel, Grid{blocks_of(all.channels, kThreads)}, a, all, a.output(0),
         a.output(1), a.output(2), a.attrs.as<NormEpsAttrs>().eps);
}

void run_norm_gradient_sums(const KernelArgs& a) {
  by_norm_rows(a, kLengthsOfSums, [&](const NormRows& r, auto valid) {
    norm_gradient_sums(a, r, valid, a.input(2), a.input(3),
                       {.dgamma = a.output(1), .dbeta = a.output(2), .own = a.output(0)});
  });
}

__global__ void rank_slopes_kernel(RankSums all, const float* rstd, float* mean_dy, float* slope) {
  const int64_t c = thread_number();
  if (c >= all.channels) return;
  const double rows = all.all_rows();
  mean_dy[c] = float(all.sum(c, false) / rows);
  slope[c] = float(all.sum(c, true) * double(rstd[c]) / rows);
}
void run_norm_gradient_apply(const KernelArgs& a) {
  const RankSums all = rank_sums_of(a, kAllSums);
  const float *mean = a.input(3), *rstd = a.input(4);
  float* mean_dy = reinterpret_cast<float*>(a.workspace);
  float* slope = mean_dy + all.channels;
  launch(rank_slopes_kernel, Grid{blocks_of(all.channels, kThreads)}, a, all, rstd, mean_dy, slope);
  by_norm_rows(a, kLengthsOfApply, [&](const NormRows& r, auto valid) {
    norm_gradient_elements(a, r, valid, mean, rstd, mean_dy, slope);
  });
}
Prepared prepare_slopes(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  return {.workspace = 2 * in[2].bytes()};
}

}  // namespace

const Backend moments_over_ranks_cuda{.run = run_moments_over_ranks};
const Backend norm_gradient_apply_cuda{.run = run_norm_gradient_apply, .prepare = prepare_slopes};
const Backend norm_gradient_sums_cuda{.run = run_norm_gradient_sums,
                                      .prepare = prepare_rank_sums<kLengthsOfSums>};
const Backend norm_moments_cuda{.run = run_norm_moments,
                                .prepare = prepare_rank_sums<kLengthsOfMoments>};

}  // namespace pal
