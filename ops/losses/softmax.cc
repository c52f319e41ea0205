// Over the last axis: y = e^(x - max) / sum e^(x - max) of the first `limit` of each row, else 0,
// where limit comes from lengths and causality.  dx = y (dy - sum y dy).
#include "ops/losses/softmax.h"

#include <algorithm>

#include "core/gradient.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/row_tiles.h"

namespace pal {
namespace {

void run(const KernelArgs& a) {
  const Shape& shape = a.in_spec[0].shape;
  const int64_t width = shape.back(), rows = row_count(shape);
  const DType type = a.in_spec[0].dtype;
  const bool causal = a.attrs.as<SoftmaxAttrs>().causal;
  const int64_t queries = causal ? shape[shape.rank() - 2] : 1;
  const int32_t* lengths = input_if_present<int32_t>(a, 1);
  const int64_t per_length = lengths ? rows / std::max<int64_t>(1, a.in_spec[1].shape[0]) : 1;
  parallel_chunks(
      a.queue, rows, rows_of_chunk(width, kElementGrain / 4), [&](int64_t begin, int64_t end) {
        alignas(64) float buffer[2][kTile];
        for (int64_t row = begin; row < end; ++row) {
          int64_t limit =
              lengths ? std::clamp<int64_t>(lengths[row / per_length], 0, width) : width;
          if (causal) limit = std::min(limit, row % queries + 1);
          const int64_t base = row * width;
          const float most = max_of_row(a.in[0], type, base, limit, buffer[0]);
          const float total = exp_sum_of_row(a.in[0], type, base, limit, most, buffer[0]);
          each_tile(a.in[0], type, base, width, buffer[0],
                    [&](const float* x, int64_t j, int64_t n) {
                      const int64_t used = std::clamp<int64_t>(limit - j, 0, n);
                      float* y = tile_to_fill(a.out[0], type, base + j, buffer[1]);
#pragma omp simd
                      for (int64_t e = 0; e < used; ++e) y[e] = exp(x[e] - most) / total;
                      for (int64_t e = used; e < n; ++e) y[e] = 0;
                      if (type != DType::f32) store_tile(a.out[0], type, base + j, n, y);
                    });
        }
      });
}

// y, dy -> dx
void run_grad(const KernelArgs& a) {
  const int64_t width = a.in_spec[0].shape.back(), rows = row_count(a.in_spec[0].shape);
  const DType type = a.in_spec[0].dtype;
  parallel_chunks(
      a.queue, rows, rows_of_chunk(width, kElementGrain / 4), [&](int64_t begin, int64_t end) {
        alignas(64) float buffer[3][kTile];
        for (int64_t base = begin * width; base < end * width; base += width) {
          LaneSum sum;
          each_tile(a.in[0], type, base, width, buffer[0],
                    [&](const float* y, int64_t j, int64_t n) {
                      const float* dy = load_tile(a.in[1], type, base + j, n, buffer[1]);
                      sum.add(n, [&](int64_t e) { return y[e] * dy[e]; });
                    });
          const float dot = sum.total();
          each_tile(a.in[0], type, base, width, buffer[0],
                    [&](const float* y, int64_t j, int64_t n) {
                      const float* dy = load_tile(a.in[1], type, base + j, n, buffer[1]);
                      float* dx = tile_to_fill(a.out[0], type, base + j, buffer[2]);
#pragma omp simd
                      for (int64_t e = 0; e < n; ++e) dx[e] = y[e] * (dy[e] - dot);
                      if (type != DType::f32) store_tile(a.out[0], type, base + j, n, dx);
                    });
        }
      });
}

}  // namespace

const OpDef softmax_op{
    .name = "softmax",
    .formula = "y = e^x / sum e^x over the last axis, up to a length",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      require(in.size() == 2, "takes x and lengths");
      const Shape& shape = in[0].shape;
      require(shape.rank() >= (attrs.as<SoftmaxAttrs>().causal ? 2 : 1) && is_float(in[0].dtype),
              in[0], ": want floats (.., C), or (.., Q, C) if causal");
      require(!present(in[1]) || (in[1].dtype == DType::i32 && in[1].shape.rank() == 1 &&
                                  in[1].shape[0] > 0 && row_count(shape) % in[1].shape[0] == 0),
              in[0], ", ", in[1], ": want lengths i32[L], L a divisor of the number of rows");
      return {plain(in[0])};
    },
    .gradient =
        [](GradientArgs& g) {
          g.give(0, g.builder.emit1(softmax_grad_op, {g.out(0), g.dy()}));
        },
    .optional_from = 1,
    .shares = {{0, 0}},
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
      return {45.0 * double(in[0].numel()), double(in[0].bytes() + out[0].bytes())};
    },
    .cpu = {.run = run},
    .cuda = &softmax_cuda,
    .examples = {{.operands = {example({5, 3}), absent_example()}, .attrs = SoftmaxAttrs{}},
                 {.operands = {example({3, 2, 7}), example({3}, DType::i32, 0, 7)},
                  .attrs = SoftmaxAttrs{}},
                 {.operands = {example({2, 5, 5}), example({2}, DType::i32, 2, 5)},
                  .attrs = SoftmaxAttrs{true}},
                 {.operands = {example({7, 13}, DType::bf16), absent_example()},
                  .attrs = SoftmaxAttrs{}},
                 {.operands = {example({20, 530}), example({20}, DType::i32, 1, 530)},
                  .attrs = SoftmaxAttrs{}}},
};

const OpDef softmax_grad_op{
    .name = "softmax_grad",
    .formula = "dx = y (dy - sum y dy) over the last axis",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() == 2 && present(in[0]), "takes y and dy (.., C)");
      return infer_like_first(in, 2);
    },
    .shares = {{0, 0}, {0, 1}},
    .cpu = {.run = run_grad},
    .cuda = &softmax_grad_cuda,
    .examples = {{.operands = {example({5, 3}, DType::f32, 0, 1), example({5, 3})}},
                 {.operands = {example({7, 13}, DType::f16, 0, 1), example({7, 13}, DType::f16)}},
                 {.operands = {example({20, 530}, DType::f32, 0, 1), example({20, 530})}}},
};

Val softmax(Val x, Val lengths, bool causal) {
  return x.builder->emit1(softmax_op, {x, lengths}, SoftmaxAttrs{causal});
}

}  // namespace pal
