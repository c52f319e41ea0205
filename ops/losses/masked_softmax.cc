// Over the leading axis: y[s] = e^(x[s] - max) / sum_s' e^(x[s'] - max) for s, s' < length, else 0.
//   dx[s] = y[s] (dy[s] - sum_s' y[s'] dy[s'])
// A chunk takes neighbouring columns, which are vector lanes; sums go down the column in order.
#include "ops/losses/masked_softmax.h"

#include <algorithm>

#include "core/gradient.h"
#include "ops/kernels/math.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

constexpr int64_t kColumns = 32;

void run(const KernelArgs& a) {
  const int64_t steps = a.in_spec[0].shape[0], batch = a.in_spec[0].shape[1];
  const DType type = a.in_spec[0].dtype;
  const int32_t* lengths = input_if_present<int32_t>(a, 1);
  parallel_chunks(a.queue, batch, kColumns, [&](int64_t begin, int64_t end) {
    const int64_t n = end - begin;
    float top[kColumns], sum[kColumns] = {}, buffer[kColumns], out[kColumns];
    int64_t length[kColumns];
    for (int64_t e = 0; e < n; ++e) {
      length[e] = lengths ? lengths[begin + e] : steps;
      top[e] = -__builtin_huge_valf();
    }
    for (int64_t s = 0; s < steps; ++s) {
      const float* x = load_tile(a.in[0], type, s * batch + begin, n, buffer);
      for (int64_t e = 0; e < n; ++e) top[e] = ((s < length[e]) & (x[e] > top[e])) ? x[e] : top[e];
    }
    for (int64_t s = 0; s < steps; ++s) {
      const float* x = load_tile(a.in[0], type, s * batch + begin, n, buffer);
      for (int64_t e = 0; e < n; ++e) sum[e] += choose(s < length[e], exp(x[e] - top[e]), 0.0f);
    }
    for (int64_t s = 0; s < steps; ++s) {
      const float* x = load_tile(a.in[0], type, s * batch + begin, n, buffer);
      for (int64_t e = 0; e < n; ++e) {
        out[e] = choose(s < length[e], exp(x[e] - top[e]) / sum[e], 0.0f);
      }
      store_tile(a.out[0], type, s * batch + begin, n, out);
    }
  });
}

// y, dy -> dx
void run_grad(const KernelArgs& a) {
  const int64_t steps = a.in_spec[0].shape[0], batch = a.in_spec[0].shape[1];
  const DType type = a.in_spec[0].dtype;
  parallel_chunks(a.queue, batch, kColumns, [&](int64_t begin, int64_t end) {
    const int64_t n = end - begin;
    float dot[kColumns] = {}, buffer[2][kColumns], out[kColumns];
    for (int64_t s = 0; s < steps; ++s) {
      const float* y = load_tile(a.in[0], type, s * batch + begin, n, buffer[0]);
      const float* dy = load_tile(a.in[1], type, s * batch + begin, n, buffer[1]);
      for (int64_t e = 0; e < n; ++e) dot[e] += y[e] * dy[e];
    }
    for (int64_t s = 0; s < steps; ++s) {
      const float* y = load_tile(a.in[0], type, s * batch + begin, n, buffer[0]);
      const float* dy = load_tile(a.in[1], type, s * batch + begin, n, buffer[1]);
      for (int64_t e = 0; e < n; ++e) out[e] = y[e] * (dy[e] - dot[e]);
      store_tile(a.out[0], type, s * batch + begin, n, out);
    }
  });
}

Cost cost(SpecSpan in, SpecSpan out, const Attrs&) {
  return {45.0 * double(in[0].numel()), double(in[0].bytes() + out[0].bytes())};
}

}  // namespace

const OpDef masked_softmax_op{
    .name = "masked_softmax",
    .formula = "y[s] = e^x[s] / sum_s e^x[s] for s < length, else 0",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() == 2, "takes scores and lengths");
      require(in[0].shape.rank() == 2 && is_float(in[0].dtype), in[0], ": want scores (S, B)");
      require(
          !present(in[1]) || (in[1].dtype == DType::i32 && in[1].shape == Shape{in[0].shape[1]}),
          in[1], ": want lengths i32[", in[0].shape[1], "]");
      return {plain(in[0])};
    },
    .gradient =
        [](GradientArgs& g) {
          g.give(0, g.builder.emit1(masked_softmax_grad_op, {g.out(0), g.dy()}));
        },
    .optional_from = 1,
    .shares = {{0, 0}},
    .cost = cost,
    .cpu = {.run = run},
    .cuda = &masked_softmax_cuda,
    .examples = {{.operands = {example({5, 3}), example({3}, DType::i32, 0, 6)}},
                 {.operands = {example({5, 3}), absent_example()}},
                 {.operands = {example({7, 13}, DType::bf16), example({13}, DType::i32, 0, 7)}},
                 {.operands = {example({40, 70}), example({70}, DType::i32, 1, 40)}}},
};

const OpDef masked_softmax_grad_op{
    .name = "masked_softmax_grad",
    .formula = "dx[s] = y[s] (dy[s] - sum_s y[s] dy[s])",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() == 2 && in[0].shape.rank() == 2, "takes y (S, B) and dy (S, B)");
      return infer_like_first(in, 2);
    },
    .shares = {{0, 0}, {0, 1}},
    .cpu = {.run = run_grad},
    .cuda = &masked_softmax_grad_cuda,
    .examples = {{.operands = {example({5, 3}, DType::f32, 0, 1), example({5, 3})}},
                 {.operands = {example({7, 13}, DType::f16, 0, 1), example({7, 13}, DType::f16)}},
                 {.operands = {example({40, 70}, DType::f32, 0, 1), example({40, 70})}}},
};

Val masked_softmax(Val scores, Val lengths) {
  return scores.builder->emit1(masked_softmax_op, {scores, lengths});
}

}  // namespace pal
