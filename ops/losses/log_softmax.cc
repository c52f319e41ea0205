// What decoding reads off the logits: log_softmax y = x - log sum e^x, and the best index of a row.
#include "ops/losses/log_softmax.h"

#include <algorithm>

#include "core/builder.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/row_tiles.h"

namespace pal {
namespace {

void run_log_softmax(const KernelArgs& a) {
  const int64_t width = a.in_spec[0].shape.back(), rows = row_count(a.in_spec[0].shape);
  const DType type = a.in_spec[0].dtype;
  parallel_chunks(a.queue, rows, rows_of_chunk(width, kElementGrain / 4),
                  [&](int64_t begin, int64_t end) {
                    alignas(64) float buffer[2][kTile];
                    for (int64_t base = begin * width; base < end * width; base += width) {
                      const float lse = log_sum_exp_of_row(a.in[0], type, base, width, buffer[0]);
                      each_tile(a.in[0], type, base, width, buffer[0],
                                [&](const float* x, int64_t j, int64_t n) {
                                  float* y = tile_to_fill(a.out[0], type, base + j, buffer[1]);
#pragma omp simd
                                  for (int64_t e = 0; e < n; ++e) y[e] = x[e] - lse;
                                  if (type != DType::f32)
                                    store_tile(a.out[0], type, base + j, n, y);
                                });
                    }
                  });
}

void run_argmax(const KernelArgs& a) {
  const int64_t width = a.in_spec[0].shape.back(), rows = row_count(a.in_spec[0].shape);
  const DType type = a.in_spec[0].dtype;
  int32_t* out = a.output<int32_t>(0);
  parallel_chunks(a.queue, rows, rows_of_chunk(width, kElementGrain / 4),
                  [&](int64_t begin, int64_t end) {
                    alignas(64) float buffer[kTile];
                    for (int64_t row = begin; row < end; ++row) {
                      const float most = max_of_row(a.in[0], type, row * width, width, buffer);
                      int64_t best = 0;
                      while (best < width && load_one(a.in[0], type, row * width + best) != most)
                        ++best;
                      out[row] = best < width ? int32_t(best) : 0;  // a row of NaNs has no largest
                    }
                  });
}

Cost cost(SpecSpan in, SpecSpan out, const Attrs&) {
  return {23.0 * double(in[0].numel()), double(in[0].bytes() + out[0].bytes())};
}

std::vector<Example> examples() {
  return {{.operands = {example({3, 2, 5})}},
          {.operands = {example({7, 33}, DType::bf16)}},
          {.operands = {example({35, 1030})}}};
}

}  // namespace

const OpDef log_softmax_op{
    .name = "log_softmax",
    .formula = "x - log sum e^x over the last axis",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() == 1 && present(in[0]), "takes x (.., V)");
      return infer_like_first(in, 1);
    },
    .shares = {{0, 0}},
    .cost = cost,
    .cpu = {.run = run_log_softmax},
    .cuda = &log_softmax_cuda,
    .examples = examples(),
};

const OpDef argmax_rows_op{
    .name = "argmax_rows",
    .formula = "argmax over the last axis, the first among equals",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() == 1 && present(in[0]) && is_float(in[0].dtype) && in[0].shape.back() > 0,
              "takes floats (.., C), C > 0");
      const Shape& shape = in[0].shape;
      return {{shape.rank() > 1 ? shape.without(shape.rank() - 1) : Shape{1}, DType::i32}};
    },
    .cpu = {.run = run_argmax},
    .cuda = &argmax_rows_cuda,
    .examples = examples(),
};

Val log_softmax(Val x) { return x.builder->emit1(log_softmax_op, {x}); }
Val argmax_rows(Val x) { return x.builder->emit1(argmax_rows_op, {x}); }

}  // namespace pal
