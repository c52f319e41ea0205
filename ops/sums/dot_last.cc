// dot_last:  y[r] = x[r,:] . v,  dx[r,:] = dy[r] v,  dv = sum + sum_r dy[r] x[r,:]
// dv goes through a fixed number of chunks of rows; dx may lie over x.
#include "ops/sums/dot_last.h"

#include <algorithm>

#include "core/gradient.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/row_tiles.h"

namespace pal {
namespace {

void check(const TensorSpec& x, const TensorSpec& v) {
  require(x.shape.rank() >= 2 && is_float(x.dtype) && v == TensorSpec{{x.shape.back()}}, x, ", ", v,
          ": want floats (.., A) and f32 (A)");
}

void run(const KernelArgs& a) {
  const int64_t width = a.in_spec[1].shape[0], rows = row_count(a.in_spec[0].shape);
  const DType type = a.in_spec[0].dtype;
  parallel_chunks(a.queue, rows, rows_of_chunk(width), [&](int64_t begin, int64_t end) {
    alignas(64) float buffer[kTile];
    for (int64_t row = begin; row < end; ++row) {
      LaneSum sum;
      each_tile(a.in[0], type, row * width, width, buffer,
                [&](const float* x, int64_t j, int64_t n) {
                  const float* v = a.input(1) + j;
                  sum.add(n, [&](int64_t e) { return x[e] * v[e]; });
                });
      store_one(a.out[0], type, row, sum.total());
    }
  });
}

Prepared prepare_grad(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  const int64_t rows = row_count(in[1].shape), grain = rows_per_partial(rows);
  return {.workspace = (rows + grain - 1) / grain * in[2].shape[0] * int64_t(sizeof(float))};
}

// dy (..), x (.., A), v (A) | sum (A) -> dx (.., A), dv (A)
void run_grad(const KernelArgs& a) {
  const int64_t width = a.in_spec[2].shape[0], rows = row_count(a.in_spec[1].shape);
  const DType type = a.in_spec[1].dtype;
  const int64_t grain = rows_per_partial(rows), chunks = (rows + grain - 1) / grain;
  float* partial = reinterpret_cast<float*>(a.workspace);  // (chunks, A)
  parallel_chunks(a.queue, rows, grain, [&](int64_t begin, int64_t end) {
    alignas(64) float buffer[2][kTile];
    float* dv_chunk = partial + begin / grain * width;
    std::fill_n(dv_chunk, width, 0.0f);
    for (int64_t row = begin; row < end; ++row) {
      const float dy = load_one(a.in[0], type, row);
      for (int64_t j = 0; j < width; j += kTile) {
        const int64_t n = std::min(kTile, width - j), at = row * width + j;
        const float* x = load_tile(a.in[1], type, at, n, buffer[0]);
        const float* v = a.input(2) + j;
        float* dx = a.out[0] ? tile_to_fill(a.out[0], type, at, buffer[1]) : buffer[1];
        float* dv = dv_chunk + j;
#pragma omp simd
        for (int64_t e = 0; e < n; ++e) {
          dv[e] += dy * x[e];
          dx[e] = dy * v[e];
        }
        if (a.out[0] && type != DType::f32) store_tile(a.out[0], type, at, n, dx);
      }
    }
  });
  if (!a.out[1]) return;
  sum_partials(a.output(1), partial, chunks, width, width, input_if_present<float>(a, 3));
}

}  // namespace

const OpDef dot_last_op{
    .name = "dot_last",
    .formula = "y[r] = x[r,:] . v",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() == 2, "takes x and v");
      check(in[0], in[1]);
      return {{in[0].shape.without(in[0].shape.rank() - 1), in[0].dtype}};
    },
    .gradient =
        [](GradientArgs& g) {
          auto d = g.builder.emit(dot_last_grad_op, {g.dy(), g.in(0), g.in(1), g.take_sum(1)});
          g.give(0, d[0]), g.give(1, d[1]);
        },
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
      return {2.0 * double(in[0].numel()), double(in[0].bytes() + out[0].bytes())};
    },
    .cpu = {.run = run},
    .cuda = &dot_last_cuda,
    .examples = {{.operands = {example({3, 2, 5}), example({5})}},
                 {.operands = {example({7, 33}, DType::bf16), example({33})}},
                 {.operands = {example({7, 9, 530}), example({530})}}},
};

const OpDef dot_last_grad_op{
    .name = "dot_last_grad",
    .formula = "dx[r,:] = dy[r] v, dv = sum + sum_r dy[r] x[r,:]",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() == 4, "takes dy, x, v, sum");
      check(in[1], in[2]);
      require(
          in[0].dtype == in[1].dtype && in[0].shape == in[1].shape.without(in[1].shape.rank() - 1),
          in[0], ", ", in[1], ": dy is not like the output");
      require(!present(in[3]) || in[3] == in[2], in[3], ", ", in[2], ": the sum is not like v");
      return {plain(in[1]), plain(in[2])};
    },
    .optional_from = 3,
    .shares = {{0, 1}, {1, 3}},
    .cost = [](SpecSpan in, SpecSpan, const Attrs&) -> Cost {
      return {3.0 * double(in[1].numel()), 2.0 * double(in[1].bytes())};
    },
    .cpu = {.run = run_grad, .prepare = prepare_grad},
    .cuda = &dot_last_grad_cuda,
    .examples =
        {{.operands = {example({3, 2}), example({3, 2, 5}), example({5}), absent_example()}},
         {.operands = {example({7}, DType::bf16), example({7, 33}, DType::bf16), example({33}),
                       example({33})}},
         {.operands = {example({7, 9}), example({7, 9, 530}), example({530}), example({530})}}},
};

Val dot_last(Val x, Val v) { return x.builder->emit1(dot_last_op, {x, v}); }

}  // namespace pal
