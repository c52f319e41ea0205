// Ba et al. 2016. With n = (x - mean) rstd, rstd = 1 / sqrt(var + eps), g = gamma dy:
//   y = n gamma + beta,  dx = rstd (g - mean(g) - n mean(g n)),
//   dgamma = sum + sum_rows dy n,  dbeta = sum + sum_rows dy
// dgamma and dbeta go through a fixed number of chunks of rows. layer_norm_grad_add: dx + a, as
// what goes past the norm meets its gradient.
#include "ops/norms/layer_norm.h"

#include <algorithm>
#include <cmath>

#include "core/builder.h"
#include "core/gradient.h"
#include "ops/elementwise/add.h"
#include "ops/kernels/float_types.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/row_tiles.h"

namespace pal {
namespace {

Shape rows_of(const Shape& x) { return x.rank() > 1 ? x.without(x.rank() - 1) : Shape{1}; }

bool vector_f32(const TensorSpec& spec, int64_t extent) {
  return spec.dtype == DType::f32 && spec.shape == Shape{extent};
}

void run(const KernelArgs& a) {
  const int64_t width = a.in_spec[0].shape.back(), rows = row_count(a.in_spec[0].shape);
  const DType type = a.in_spec[0].dtype;
  const float eps = a.attrs.as<LayerNormAttrs>().eps;
  const float *gamma = a.input(1), *beta = a.input(2);
  parallel_chunks(a.queue, rows, rows_of_chunk(width), [&](int64_t begin, int64_t end) {
    alignas(64) float buffer[2][kTile];
    for (int64_t row = begin; row < end; ++row) {
      LaneSum sum, squares;
      each_tile(
          a.in[0], type, row * width, width, buffer[0],
          [&](const float* x, int64_t, int64_t n) { sum.add(n, [&](int64_t e) { return x[e]; }); });
      const float mean = sum.total() / float(width);
      each_tile(a.in[0], type, row * width, width, buffer[0],
                [&](const float* x, int64_t, int64_t n) {
                  squares.add(n, [&](int64_t e) { return (x[e] - mean) * (x[e] - mean); });
                });
      const float rstd = 1 / std::sqrt(squares.total() / float(width) + eps);
      if (a.out[1]) a.output(1)[row] = mean;
      if (a.out[2]) a.output(2)[row] = rstd;
      if (!a.out[0]) continue;
      each_tile(a.in[0], type, row * width, width, buffer[0],
                [&](const float* x, int64_t j, int64_t n) {
                  float* y = tile_to_fill(a.out[0], type, row * width + j, buffer[1]);
                  const float *scale = gamma + j, *shift = beta + j;
#pragma omp simd
                  for (int64_t e = 0; e < n; ++e) y[e] = (x[e] - mean) * rstd * scale[e] + shift[e];
                  if (type != DType::f32) store_tile(a.out[0], type, row * width + j, n, y);
                });
    }
  });
}

// Per chunk of rows: partial dgamma, then partial dbeta.
Prepared prepare_grad(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  const int64_t rows = row_count(in[1].shape), grain = rows_per_partial(rows);
  return {.workspace = (rows + grain - 1) / grain * 2 * in[2].shape[0] * int64_t(sizeof(float))};
}

// dy, x, gamma, mean, rstd | sum of dgamma, sum of dbeta, a -> dx, dgamma, dbeta. a is added to
// what dx alone would be, rounded to its type.
constexpr size_t kAdded = 7;
void run_grad(const KernelArgs& a) {
  const int64_t width = a.in_spec[1].shape.back(), rows = row_count(a.in_spec[1].shape);
  const DType type = a.in_spec[1].dtype;
  const float *gamma = a.input(2), *means = a.input(3), *rstds = a.input(4);
  const int64_t grain = rows_per_partial(rows), chunks = (rows + grain - 1) / grain;
  const void* added = input_if_present(a, kAdded);
  float* workspace = reinterpret_cast<float*>(a.workspace);
  parallel_chunks(a.queue, rows, grain, [&](int64_t begin, int64_t end) {
    alignas(64) float buffer[3][kTile];
    float* dgamma = workspace + begin / grain * 2 * width;
    float* dbeta = dgamma + width;
    std::fill_n(dgamma, 2 * width, 0.0f);
    for (int64_t row = begin; row < end; ++row) {
      const float mean = means[row], rstd = rstds[row];
      LaneSum of_g, of_gn;
      each_tile(
          a.in[0], type, row * width, width, buffer[0], [&](const float* dy, int64_t j, int64_t n) {
            const float* x = load_tile(a.in[1], type, row * width + j, n, buffer[1]);
            const float* scale = gamma + j;
            float *dg = dgamma + j, *db = dbeta + j;
            of_g.add(n, [&](int64_t e) { return scale[e] * dy[e]; });
            of_gn.add(n, [&](int64_t e) { return scale[e] * dy[e] * ((x[e] - mean) * rstd); });
#pragma omp simd
            for (int64_t e = 0; e < n; ++e) {
              dg[e] += dy[e] * ((x[e] - mean) * rstd);
              db[e] += dy[e];
            }
          });
      if (!a.out[0]) continue;
      const float mean_g = of_g.total() / float(width), mean_gn = of_gn.total() / float(width);
      each_tile(a.in[0], type, row * width, width, buffer[0],
                [&](const float* dy, int64_t j, int64_t n) {
                  const float* x = load_tile(a.in[1], type, row * width + j, n, buffer[1]);
                  float* dx =
                      added ? buffer[2] : tile_to_fill(a.out[0], type, row * width + j, buffer[2]);
                  const float* scale = gamma + j;
#pragma omp simd
                  for (int64_t e = 0; e < n; ++e) {
                    dx[e] = rstd * (scale[e] * dy[e] - mean_g - (x[e] - mean) * rstd * mean_gn);
                  }
                  if (added) {
                    const float* sum = load_tile(added, type, row * width + j, n, buffer[0]);
                    float* out = tile_to_fill(a.out[0], type, row * width + j, buffer[2]);
                    add_stored(type, n, dx, sum, out);
                    dx = out;
                  }
                  if (type != DType::f32) store_tile(a.out[0], type, row * width + j, n, dx);
                });
    }
  });
  for (int which = 0; which < 2; ++which) {
    float* out = a.output(size_t(1 + which));
    const float* old = input_if_present<float>(a, size_t(5 + which));
    if (out) sum_partials(out, workspace + which * width, chunks, 2 * width, width, old);
  }
}

Specs infer_grad(SpecSpan in) {
  const TensorSpec& x = in[1];
  require(present(x) && is_float(x.dtype) && in[0] == x && x.shape.back() > 0, in[0], ", ", x,
          ": want dy and x (.., C), alike");
  const int64_t width = x.shape.back();
  const TensorSpec statistic{rows_of(x.shape)};
  require(vector_f32(in[2], width) && in[3] == statistic && in[4] == statistic, in[2], ", ", in[3],
          ", ", in[4], ": want gamma f32[C], mean and rstd of the rows");
  require((!present(in[5]) || in[5] == in[2]) && (!present(in[6]) || in[6] == in[2]), in[5], ", ",
          in[6], ": the sums are not like gamma");
  return {plain(x), plain(in[2]), plain(in[2])};
}

// A sum with dx, on either side.
std::vector<FusedPattern> sum_patterns(SpecSpan in, const Attrs& attrs) {
  std::vector<FusedPattern> out;
  for (const bool first : {false, true}) {
    Builder b;
    std::vector<Val> operands;
    for (const TensorSpec& spec : in) {
      operands.push_back(present(spec) ? b.input(std::to_string(operands.size()), spec) : Val{});
    }
    const Val sum = b.input("a", in[1]);
    const std::vector<Val> made = b.emit(layer_norm_grad_op, operands, attrs);
    const Val z = first ? add(made[0], sum) : add(sum, made[0]);
    FusedPattern pattern{
        .program = b.take(), .out = {z.id, made[1].id, made[2].id}, .attrs = attrs};
    for (Val v : operands) pattern.in.push_back(v.id);
    pattern.in.push_back(sum.id);
    out.push_back(std::move(pattern));
  }
  return out;
}

ExampleOperand statistic(Shape rows) { return example(rows, DType::f32, 0.5f, 1.5f); }

}  // namespace

const OpDef layer_norm_op{
    .name = "layer_norm",
    .formula = "y = (x - mean) rstd gamma + beta over the last axis",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      require(in.size() == 3, "takes x, gamma, beta");
      require(attrs.as<LayerNormAttrs>().eps >= 0, "eps is negative");
      require(present(in[0]) && is_float(in[0].dtype) && in[0].shape.back() > 0, in[0],
              ": want floats (.., C)");
      require(vector_f32(in[1], in[0].shape.back()) && vector_f32(in[2], in[0].shape.back()), in[0],
              ", ", in[1], ", ", in[2], ": want gamma and beta f32[C]");
      return {plain(in[0]), {rows_of(in[0].shape)}, {rows_of(in[0].shape)}};
    },
    .gradient =
        [](GradientArgs& g) {
          if (!g.dy()) return;  // mean and rstd are statistics: no loss goes through them
          const Val gamma = g.take_sum(1), beta = g.take_sum(2);
          g.give_all(g.builder.emit(layer_norm_grad_op,
                                    {g.dy(), g.in(0), g.in(1), g.out(1), g.out(2), gamma, beta}));
        },
    .shares = {{0, 0}},
    .rows = rows_of_first,
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
      return {8.0 * double(in[0].numel()), double(in[0].bytes() + out[0].bytes())};
    },
    .cpu = {.run = run},
    .cuda = &layer_norm_cuda,
    .examples = {{.operands = {example({3, 2, 7}), example({7}), example({7})},
                  .attrs = LayerNormAttrs{}},
                 {.operands = {example({5, 33}, DType::bf16), example({33}), example({33})},
                  .attrs = LayerNormAttrs{}},
                 {.operands = {example({35, 530}), example({530}), example({530})},
                  .attrs = LayerNormAttrs{0.1f}},
                 {.operands = {example({3, 5}), example({5}), example({5})},
                  .attrs = LayerNormAttrs{},
                  .unread = {0, 1, 0}}},
};

const OpDef layer_norm_grad_op{
    .name = "layer_norm_grad",
    .formula = "dx = rstd (g - mean(g) - n mean(g n)), g = gamma dy; dgamma += dy n; dbeta += dy",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() == 7, "takes dy, x, gamma, mean, rstd, sum of dgamma, sum of dbeta");
      return infer_grad(in);
    },
    .optional_from = 5,
    .shares = {{0, 0}, {0, 1}, {1, 5}, {2, 6}},
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
      return {20.0 * double(in[1].numel()), double(2 * in[1].bytes() + out[0].bytes())};
    },
    .cpu = {.run = run_grad, .prepare = prepare_grad},
    .cuda = &layer_norm_grad_cuda,
    .examples = {{.operands = {example({3, 2, 7}), example({3, 2, 7}), example({7}),
                               statistic({3, 2}), statistic({3, 2}), absent_example(),
                               absent_example()}},
                 {.operands = {example({5, 33}, DType::bf16), example({5, 33}, DType::bf16),
                               example({33}), statistic({5}), statistic({5}), example({33}),
                               absent_example()}},
                 {.operands = {example({3, 4100}), example({3, 4100}), example({4100}),
                               statistic({3}), statistic({3}), absent_example(), absent_example()}},
                 {.operands = {example({35, 530}), example({35, 530}), example({530}),
                               statistic({35}), statistic({35}), example({530}), example({530})}}},
};

const OpDef layer_norm_grad_add_op{
    .name = "layer_norm_grad_add",
    .formula = "layer_norm_grad's, dx + a",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() == kAdded + 1, "takes layer_norm_grad's operands and a");
      require(present(in[kAdded]) && in[kAdded] == in[1], in[kAdded], ": want a like x ", in[1]);
      return infer_grad(in);
    },
    .optional_from = 5,
    .shares = {{0, 0}, {0, 1}, {0, int(kAdded)}, {1, 5}, {2, 6}},
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
      return {21.0 * double(in[1].numel()), double(3 * in[1].bytes() + out[0].bytes())};
    },
    .cpu = {.run = run_grad, .prepare = prepare_grad},
    .cuda = &layer_norm_grad_cuda,
    .examples = {{.operands = {example({3, 2, 7}), example({3, 2, 7}), example({7}),
                               statistic({3, 2}), statistic({3, 2}), absent_example(), example({7}),
                               example({3, 2, 7})}},
                 {.operands = {example({5, 33}, DType::bf16), example({5, 33}, DType::bf16),
                               example({33}), statistic({5}), statistic({5}), example({33}),
                               absent_example(), example({5, 33}, DType::bf16)}},
                 {.operands = {example({35, 530}), example({35, 530}), example({530}),
                               statistic({35}), statistic({35}), example({530}), example({530}),
                               example({35, 530})},
                  .unread = {0, 1, 1}}},
};

const Rewrite layer_norm_grad_add_rewrite{.op = &layer_norm_grad_add_op,
                                          .anchor = &layer_norm_grad_op,
                                          .when = Rewrite::When::always,
                                          .patterns = sum_patterns};

Val layer_norm(Val x, Val gamma, Val beta, float eps) {
  auto out = x.builder->emit(layer_norm_op, {x, gamma, beta}, LayerNormAttrs{eps});
  for (size_t i : {1, 2}) x.builder->program().value(out[i].id).role = Role::statistic;
  return out[0];
}

}  // namespace pal
