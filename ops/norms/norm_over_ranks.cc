// norm_moments: mean and squared distances m2 = sum (x - mean)^2 of this rank's N rows.
// moments_over_ranks, where N = sum N_r:
//   mean = sum N_r mean_r / N,  m2 = sum m2_r + N_r (mean_r - mean)^2   (Chan et al. 1979).
// norm_gradient_sums: dbeta = sum dy and dgamma = sum dy xhat of this rank's rows, which are its
// part of the weights' gradients. norm_gradient_apply, with the sums of all ranks:
//   dx = gamma rstd (dy - sum dbeta_r / N - xhat sum dgamma_r / N).
// What travels is rounded to f32 once, and added up in double.
#include "ops/norms/norm_over_ranks.h"

#include "core/builder.h"
#include "ops/exchange/exchange.h"
#include "ops/kernels/operands.h"
#include "ops/norms/frame_rows.h"
#include "ops/norms/norm_kernel.h"

namespace pal {
namespace {

bool is_batch_first(const Attrs& attrs) { return attrs.as<NormRowsAttrs>().batch_first; }

// f(rows): the rows of operand 0, of valid frames where there are lengths.
template <class F>
auto by_rows(const TensorSpec& x, bool frames, const int32_t* lengths, const Attrs& attrs, F f) {
  return frames ? f(FrameRows(x, is_batch_first(attrs), lengths)) : f(AllRows(x));
}
// f(rows, an element) of operand 0.
template <class F> void by_rows(const KernelArgs& a, size_t lengths, F f) {
  const auto* of_frames = input_if_present<int32_t>(a, lengths);
  by_rows(a.in_spec[0], of_frames, of_frames, a.attrs, [&](const auto& q) {
    by_float_type(a.in_spec[0].dtype, [&]<class T>(T x) { f(q, x); });
  });
}

RankSums sums_of_ranks(const KernelArgs& a, size_t operand) {
  const Shape& shape = a.in_spec[operand].shape;
  return {a.input(operand), shape[0], (shape[1] - 1) / 2};
}

void run_moments(const KernelArgs& a) {
  by_rows(a, kLengthsOfMoments, [&]<class T>(const auto& q, T) {
    float *mean = a.output(0), *m2 = mean + q.channels;
    const int64_t rows =
        row_moments(a.queue, q, a.input<T>(0), reinterpret_cast<float*>(a.workspace),
                    [&](int64_t c, double, double center, double distances) {
                      mean[c] = float(center), m2[c] = float(distances);
                    });
    mean[2 * q.channels] = float(rows);
  });
}

void run_over_ranks(const KernelArgs& a) {
  const RankSums all = sums_of_ranks(a, 0);
  const float eps = a.attrs.as<NormEpsAttrs>().eps;
  for (int64_t c = 0; c < all.channels; ++c) {
    all.put_moments(c, eps, a.output(0), a.output(1), a.output(2));
  }
}

void run_gradient_sums(const KernelArgs& a) {
  by_rows(a, kLengthsOfSums, [&]<class T>(const auto& q, T) {
    float* partial = reinterpret_cast<float*>(a.workspace);
    gradient_chunks(a.queue, q, a.input<T>(0), a.input<T>(1), a.input(2), partial);
    float *own = a.output(0), *dgamma = a.output(1), *dbeta = a.output(2);
    combine_gradient(a.queue, q, partial, a.input(3), [&](int64_t c, double sum, double dot) {
      if (own) own[c] = float(sum), own[q.channels + c] = float(dot);
      if (dgamma) dgamma[c] = float(dot);
      if (dbeta) dbeta[c] = float(sum);
    });
    if (own) own[2 * q.channels] = float(q.count(0, q.frames));
  });
}

void run_gradient_apply(const KernelArgs& a) {
  const RankSums all = sums_of_ranks(a, kAllSums);
  const float *gamma = a.input(2), *mean = a.input(3), *rstd = a.input(4);
  float* mean_dy = reinterpret_cast<float*>(a.workspace);
  float* slope = mean_dy + all.channels;
  const double rows = all.all_rows();
  for (int64_t c = 0; c < all.channels; ++c) {
    mean_dy[c] = float(all.sum(c, false) / rows);
    slope[c] = float(all.sum(c, true) * double(rstd[c]) / rows);
  }
  by_rows(a, kLengthsOfApply, [&]<class T>(const auto& q, T) {
    gradient_elements(a.queue, q, a.input<T>(0), a.input<T>(1), {gamma, mean, rstd, mean_dy, slope},
                      a.output<T>(0));
  });
}

// `images` operands like x, vectors of its channels, and at their place the lengths.
void check(SpecSpan in, size_t images, size_t vectors, size_t lengths, const Attrs& attrs) {
  require(in.size() >= lengths && in.size() <= lengths + 1, "takes ", lengths, " operands or ",
          lengths + 1);
  require_norm_operands(in.first(images + vectors), images, images + vectors);
  if (!present(in, lengths)) return;
  const Shape& x = in[0].shape;
  require(x.rank() >= 3, in[0], ": needs frames (T, B, .., C)");
  const TensorSpec wanted{{x[is_batch_first(attrs) ? 0 : 1]}, DType::i32};
  require(in[lengths] == wanted, "lengths should be ", wanted, ", are ", in[lengths]);
}
TensorSpec sums_spec(const TensorSpec& x) { return {{2 * x.shape.back() + 1}}; }

// Room for the chunks' sums, of moments or of a gradient.
template <size_t lengths>
Prepared prepare_sums(const Device&, SpecSpan in, SpecSpan, const Attrs& attrs) {
  return by_rows(in[0], present(in, lengths), nullptr, attrs,
                 [](const auto& q) { return Prepared{.workspace = moments_workspace(q) * 4}; });
}
Prepared prepare_apply(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  return {.workspace = 2 * in[2].bytes()};
}

ExampleOperand lengths_example(int64_t batch, int64_t most) {
  return example({batch}, DType::i32, 0, float(most));
}
// With lengths behind them, of so many frames at most.
std::vector<ExampleOperand> with_lengths(std::vector<ExampleOperand> operands, int64_t batch,
                                         int64_t most) {
  operands.push_back(lengths_example(batch, most));
  return operands;
}
// As norm_operands, and what so many ranks say.
std::vector<ExampleOperand> apply_operands(const Shape& x, int64_t ranks, DType type = DType::f32) {
  std::vector<ExampleOperand> operands = norm_operands(x, 2, 3, type);
  operands.push_back(example({ranks, 2 * x.back() + 1}, DType::f32, 0.5f, 2));
  return operands;
}

// (2 C + 1) of every rank.
Val of_all_ranks(Val own, int64_t ranks) {
  return all_gather({own}, {own.shape().with_front(ranks)}, ranks)[0];
}

}  // namespace

const OpDef norm_moments_op{
    .name = "norm_moments",
    .formula = "{mean, sum (x - mean)^2, how many} of this rank's rows",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      check(in, 1, 0, kLengthsOfMoments, attrs);
      return {sums_spec(in[0])};
    },
    .optional_from = kLengthsOfMoments,
    .cost = norm_cost<4, 1>,
    .cpu = {.run = run_moments, .prepare = prepare_sums<kLengthsOfMoments>},
    .cuda = &norm_moments_cuda,
    .examples = {{.operands = norm_operands({2, 3, 3, 5}, 1, 0), .attrs = NormRowsAttrs{}},
                 {.operands = norm_operands({3, 37, 5, 150}, 1, 0, DType::bf16),
                  .attrs = NormRowsAttrs{}},
                 {.operands = with_lengths(norm_operands({37, 5, 150}, 1, 0), 5, 37),
                  .attrs = NormRowsAttrs{}},
                 {.operands = with_lengths(norm_operands({3, 4, 2, 24}, 1, 0, DType::f16), 3, 4),
                  .attrs = NormRowsAttrs{true}}},
};

const OpDef moments_over_ranks_op{
    .name = "moments_over_ranks",
    .formula = "mean, rstd, variance of all ranks' rows",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_operands(in, 1, 1);
      require(in[0].shape.rank() == 2 && in[0].shape[1] % 2 == 1 && in[0].shape[1] > 1 &&
                  in[0].numel() > 0 && in[0].dtype == DType::f32 && !in[0].layout,
              in[0], ": want f32 (ranks, 2 C + 1)");
      const TensorSpec channels{{(in[0].shape[1] - 1) / 2}};
      return {channels, channels, channels};
    },
    .cost = [](SpecSpan in, SpecSpan, const Attrs&) -> Cost {
      return {4 * double(in[0].numel()), double(in[0].bytes())};
    },
    .cpu = {.run = run_over_ranks},
    .cuda = &moments_over_ranks_cuda,
    .examples = {{.operands = {example({1, 11}, DType::f32, 0.5f, 2)}, .attrs = NormEpsAttrs{}},
                 {.operands = {example({5, 301}, DType::f32, 0.5f, 2)},
                  .attrs = NormEpsAttrs{0.1f},
                  .unread = {1, 0, 1}}},
};

const OpDef norm_gradient_sums_op{
    .name = "norm_gradient_sums",
    .formula = "{sum dy, sum dy xhat, how many} of this rank's rows; dgamma, dbeta",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      check(in, 2, 2, kLengthsOfSums, attrs);
      return {sums_spec(in[0]), in[2], in[2]};
    },
    .optional_from = kLengthsOfSums,
    .cost = norm_cost<5, 2>,
    .cpu = {.run = run_gradient_sums, .prepare = prepare_sums<kLengthsOfSums>},
    .cuda = &norm_gradient_sums_cuda,
    .examples = {{.operands = norm_operands({2, 3, 3, 5}, 2, 2), .attrs = NormRowsAttrs{}},
                 {.operands = norm_operands({3, 37, 5, 150}, 2, 2, DType::bf16),
                  .attrs = NormRowsAttrs{},
                  .unread = {1, 0, 1}},
                 {.operands = with_lengths(norm_operands({37, 5, 150}, 2, 2), 5, 37),
                  .attrs = NormRowsAttrs{},
                  .unread = {0, 1, 0}},
                 {.operands = with_lengths(norm_operands({3, 4, 2, 24}, 2, 2, DType::f16), 3, 4),
                  .attrs = NormRowsAttrs{true}}},
};

const OpDef norm_gradient_apply_op{
    .name = "norm_gradient_apply",
    .formula = "dx of gamma (x - mean) rstd + beta, where mean and rstd are of all ranks' rows",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      check(in, 2, 3, kLengthsOfApply, attrs);
      const TensorSpec& all = in[kAllSums];
      require(all.shape.rank() == 2 && all.shape[0] > 0 &&
                  all == TensorSpec{{all.shape[0], 2 * in[0].shape.back() + 1}},
              "operand 5 should be f32 (ranks, 2 C + 1), is ", all);
      return {in[0]};
    },
    .optional_from = kLengthsOfApply,
    .shares = {{0, 0}, {0, 1}},
    .cost = norm_cost<6, 3>,
    .cpu = {.run = run_gradient_apply, .prepare = prepare_apply},
    .cuda = &norm_gradient_apply_cuda,
    .examples = {{.operands = apply_operands({2, 3, 3, 5}, 2), .attrs = NormRowsAttrs{}},
                 {.operands = apply_operands({3, 37, 5, 150}, 3, DType::bf16),
                  .attrs = NormRowsAttrs{}},
                 {.operands = with_lengths(apply_operands({37, 5, 150}, 1), 5, 37),
                  .attrs = NormRowsAttrs{}},
                 {.operands = with_lengths(apply_operands({3, 4, 2, 24}, 4, DType::f16), 3, 4),
                  .attrs = NormRowsAttrs{true}}},
};

NormStatistics statistics_over_ranks(Val x, Val lengths, float eps, NormRowsAttrs attrs,
                                     int64_t ranks) {
  Builder& b = *x.builder;
  const Val all = of_all_ranks(b.emit1(norm_moments_op, {x, lengths}, attrs), ranks);
  const std::vector<Val> s = b.emit(moments_over_ranks_op, {all}, NormEpsAttrs{eps});
  return {s[0], s[1], s[2]};
}

NormGradients gradients_over_ranks(const NormGradientOperands& in, NormRowsAttrs attrs,
                                   int64_t ranks) {
  Builder& b = *in.x.builder;
  const std::vector<Val> own =
      b.emit(norm_gradient_sums_op, {in.dy, in.x, in.mean, in.rstd, in.lengths}, attrs);
  const Val all = of_all_ranks(own[0], ranks);
  const Val dx = b.emit1(norm_gradient_apply_op,
                         {in.dy, in.x, in.gamma, in.mean, in.rstd, all, in.lengths}, attrs);
  return {dx, own[1], own[2]};
}

}  // namespace pal
