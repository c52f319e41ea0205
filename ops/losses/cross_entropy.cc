// Softmax cross-entropy with label smoothing (Szegedy et al. 2016), p = e^(x - lse):
//   loss = sum_n (lse - (1 - s) x[t] - s mean(x)) / tokens
//   dx[n,v] = dloss / tokens (p[v] - s / V - (1 - s) [v == t])
// Only lse is stashed beside the logits, and dx may lie over them. The loss goes through fixed
// chunks of rows, in double.
#include "ops/losses/cross_entropy.h"

#include <algorithm>

#include "core/gradient.h"
#include "core/scalars.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/row_tiles.h"

namespace pal {
namespace {

constexpr int64_t kRows = 8;  // in a chunk

Prepared prepare(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  const int64_t chunks = (in[0].shape[0] + kRows - 1) / kRows;
  return {.workspace = chunks * 2 * int64_t(sizeof(double))};
}

void run(const KernelArgs& a) {
  const int64_t rows = a.in_spec[0].shape[0], stride = a.in_spec[0].shape[1];
  const DType type = a.in_spec[0].dtype;
  const int32_t* targets = a.input<int32_t>(1);
  auto& attrs = a.attrs.as<CrossEntropyAttrs>();
  const int64_t width = attrs.classes_of(a.in_spec[0]);
  const double smoothing = attrs.smoothing;
  double* partial = reinterpret_cast<double*>(a.workspace);  // (chunks, {loss, nll})
  float* lse_out = a.output(2);
  parallel_chunks(a.queue, rows, kRows, [&](int64_t begin, int64_t end) {
    alignas(64) float buffer[kTile];
    double loss = 0, nll = 0;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t target = targets[row];
      if (target == attrs.ignore && attrs.ignore >= 0) {
        if (lse_out) lse_out[row] = 0;
        continue;
      }
      const bool valid = target >= 0 && target < width;
      const float lse = valid ? log_sum_exp_of_row(a.in[0], type, row * stride, width, buffer)
                              : __builtin_nanf("");
      if (lse_out) lse_out[row] = lse;
      const double of_target =
          valid ? double(lse) - load_one(a.in[0], type, row * stride + target) : double(lse);
      nll += of_target;
      loss += (1 - smoothing) * of_target;
      if (smoothing > 0 && a.out[0] && valid) {
        LaneSum sum;
        each_tile(a.in[0], type, row * stride, width, buffer,
                  [&](const float* x, int64_t, int64_t n) {
                    sum.add(n, [&](int64_t e) { return lse - x[e]; });
                  });
        loss += smoothing * double(sum.total()) / double(width);
      }
    }
    partial[begin / kRows * 2] = loss, partial[begin / kRows * 2 + 1] = nll;
  });
  const int64_t chunks = (rows + kRows - 1) / kRows;
  const double loss = tree_sum(chunks, [&](int64_t c) { return partial[2 * c]; });
  const double nll = tree_sum(chunks, [&](int64_t c) { return partial[2 * c + 1]; });
  if (a.out[0]) *a.output(0) = float(loss / double(as_scalars(a.in[2]).tokens));
  if (a.out[1]) *a.output(1) = float(nll);
}

// dloss f32[1], logits, lse, targets, scalars -> dlogits
void run_grad(const KernelArgs& a) {
  const int64_t rows = a.in_spec[1].shape[0], stride = a.in_spec[1].shape[1];
  const DType type = a.in_spec[1].dtype;
  const float* lses = a.input(2);
  const int32_t* targets = a.input<int32_t>(3);
  auto& attrs = a.attrs.as<CrossEntropyAttrs>();
  const int64_t width = attrs.classes_of(a.in_spec[1]);
  parallel_chunks(a.queue, rows, kRows, [&](int64_t begin, int64_t end) {
    alignas(64) float buffer[2][kTile];
    // Locals of the chunk: seen through the closure, stores to dx could change them.
    const float factor = *a.input(0) / as_scalars(a.in[4]).tokens;
    const float uniform = attrs.smoothing / float(width), rest = 1 - attrs.smoothing;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t target = targets[row];
      const bool ignored = target == attrs.ignore && attrs.ignore >= 0;
      const float lse = lses[row];
      for (int64_t j = 0; j < width; j += kTile) {
        const int64_t n = std::min(kTile, width - j), at = row * stride + j;
        float* dx = tile_to_fill(a.out[0], type, at, buffer[1]);
        if (ignored) {
          for (int64_t e = 0; e < n; ++e) dx[e] = 0;
        } else {
          const float* x = load_tile(a.in[1], type, at, n, buffer[0]);
          const bool here = target >= j && target < j + n;
          const float of_target =  // read before dx is written: it may lie over x
              here ? factor * (exp(x[target - j] - lse) - uniform - rest) : 0;
#pragma omp simd
          for (int64_t e = 0; e < n; ++e) dx[e] = factor * (exp(x[e] - lse) - uniform);
          if (here) dx[target - j] = of_target;
        }
        if (type != DType::f32) store_tile(a.out[0], type, at, n, dx);
      }
      for (int64_t j = width; j < stride; ++j) store_one(a.out[0], type, row * stride + j, 0);
    }
  });
}

void check(const TensorSpec& logits, const TensorSpec& targets, const TensorSpec& scalars,
           const Attrs& attrs) {
  const float s = attrs.as<CrossEntropyAttrs>().smoothing;
  const int64_t classes = attrs.as<CrossEntropyAttrs>().classes;
  require(s >= 0 && s <= 1, "smoothing is ", print_float(s), ": want 0 to 1");
  require(logits.shape.rank() == 2 && is_float(logits.dtype) && targets.dtype == DType::i32 &&
              targets.shape == Shape{logits.shape[0]} && logits.shape[1] > 0,
          logits, ", ", targets, ": want logits (N, V) and targets i32[N]");
  require(0 <= classes && classes <= logits.shape[1], logits, ": has no ", classes, " classes");
  require(scalars == scalars_spec(), scalars, ": want the step's scalars, ", scalars_spec());
}

std::vector<Example> examples() {
  return {
      {.operands = {example({3, 5}), example({3}, DType::i32, 0, 4), step_scalars_example()},
       .attrs = CrossEntropyAttrs{0, -1}},
      {.operands = {example({9, 37}), example({9}, DType::i32, 0, 3), step_scalars_example()},
       .attrs = CrossEntropyAttrs{0.1f, 0}},
      {.operands = {example({5, 33}, DType::bf16), example({5}, DType::i32, 0, 32),
                    step_scalars_example()},
       .attrs = CrossEntropyAttrs{0.1f, 0}},
      {.operands = {example({35, 1030}), example({35}, DType::i32, 0, 1029),
                    step_scalars_example()},
       .attrs = CrossEntropyAttrs{0.2f, 0}},
      {.operands = {example({5, 40}, DType::bf16), example({5}, DType::i32, 0, 36),
                    step_scalars_example()},
       .attrs = CrossEntropyAttrs{0.1f, 0, 37}},
      {.operands = {example({9, 1040}, DType::bf16), example({9}, DType::i32, 0, 1032),
                    step_scalars_example()},
       .attrs = CrossEntropyAttrs{0.1f, 0, 1033}},
      {.operands = {example({3, 5}), example({3}, DType::i32, 0, 4), step_scalars_example()},
       .attrs = CrossEntropyAttrs{0, 0},
       .unread = {0, 1, 0}},
  };
}

std::vector<Example> grad_examples() {
  auto one = [](int64_t rows, int64_t width, DType type, CrossEntropyAttrs attrs) {
    return Example{
        .operands = {example({1}), example({rows, width}, type), example({rows}, DType::f32, 2, 5),
                     example({rows}, DType::i32, 0,
                             float((attrs.classes ? attrs.classes : width) - 1)),
                     step_scalars_example()},
        .attrs = attrs};
  };
  return {one(3, 5, DType::f32, {0, -1}),         one(5, 33, DType::bf16, {0.1f, 0}),
          one(35, 1030, DType::f32, {0.2f, 0}),   one(9, 4, DType::f32, {0.1f, 0}),
          one(5, 40, DType::bf16, {0.1f, 0, 37}), one(3, 1040, DType::bf16, {0.2f, 0, 1030})};
}

}  // namespace

const OpDef cross_entropy_op{
    .name = "cross_entropy",
    .formula = "sum_n (lse - (1 - s) x[t] - s mean(x)) / tokens, where t is not ignored",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      require(in.size() == 3, "takes logits, targets, scalars");
      check(in[0], in[1], in[2], attrs);
      return {{Shape{1}}, {Shape{1}}, {in[1].shape}};
    },
    .gradient =
        [](GradientArgs& g) {
          if (!g.dy() || !g.wants(0)) return;  // nll and lse are statistics
          g.give(0, g.builder.emit1(cross_entropy_grad_op,
                                    {g.dy(), g.in(0), g.out(2), g.in(1), g.in(2)}, g.node.attrs));
        },
    .cost = [](SpecSpan in, SpecSpan, const Attrs&) -> Cost {
      return {23.0 * double(in[0].numel()), double(in[0].bytes())};
    },
    .cpu = {.run = run, .prepare = prepare},
    .cuda = &cross_entropy_cuda,
    .examples = examples(),
};

const OpDef cross_entropy_grad_op{
    .name = "cross_entropy_grad",
    .formula = "dloss / tokens (e^(x - lse) - s / V - (1 - s) [v == t])",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      require(in.size() == 5, "takes dloss, logits, lse, targets, scalars");
      check(in[1], in[3], in[4], attrs);
      require(one_number(in[0]) && in[2].dtype == DType::f32 && in[2].shape == in[3].shape, in[0],
              ", ", in[2], ": want dloss f32[1] and lse f32[N]");
      return {plain(in[1])};
    },
    .shares = {{0, 1}},
    .reads = [](int operand, const Attrs&) -> Reads {
      return operand == 1 ? reads_exact() : reads_values();
    },
    .cost = [](SpecSpan in, SpecSpan, const Attrs&) -> Cost {
      return {22.0 * double(in[1].numel()), 2.0 * double(in[1].bytes())};
    },
    .cpu = {.run = run_grad},
    .cuda = &cross_entropy_grad_cuda,
    .examples = grad_examples(),
};

CrossEntropy cross_entropy(Val logits, Val targets, Val scalars, CrossEntropyAttrs attrs) {
  Builder& builder = *logits.builder;
  auto out = builder.emit(cross_entropy_op, {logits, targets, scalars}, attrs);
  builder.program().value(out[2].id).role = Role::statistic;
  return {out[0], out[1], out[2]};
}

}  // namespace pal
