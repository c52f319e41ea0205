// Bahdanau et al. 2015:  y[s,b] = v . tanh(k[s,b,:] + q[b,:])
//   t = tanh(k + q), d[s,b,:] = dy[s,b] v (1 - t^2):  dk = sum + d, dq = sum_s d, dv = sum + dy t
// The gradient goes through the batch in chunks of score_rows, each with its sum of dv in the
// workspace. Positions whose dy is zero (masked ones) are not touched.
#include "ops/attention/attention_score.h"

#include <algorithm>

#include "core/gradient.h"
#include "ops/attention/scores.h"
#include "ops/elementwise/activations.h"
#include "ops/kernels/operands.h"
#include "ops/sums/dot_last.h"
#include "ops/sums/reduce.h"

namespace pal {
namespace {

constexpr int64_t kScoreGrain = 4096;  // tanhs in a chunk of the forward loop
alignas(64) constexpr float kZeros[kTile] = {};

void check(const TensorSpec& keys, const TensorSpec& query, const TensorSpec& v) {
  require(keys.shape.rank() == 3 && is_float(keys.dtype) && query.dtype == keys.dtype &&
              query.shape == keys.shape.without(0) && v == TensorSpec{{keys.shape[2]}},
          keys, ", ", query, ", ", v,
          ": want keys (S, B, A) and query (B, A) of one float type, v f32 (A)");
}

void run(const KernelArgs& a) {
  const float* v = a.input(2);
  run_score(a, kScoreGrain,
            [v](float key, float query, int64_t j) { return MlpScore{}(key, query, v[j]); });
}

// Per chunk of score_rows: dv, then dv and dq of one of its rows.
Prepared prepare_grad(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  const int64_t batch = in[2].shape[0], width = in[2].shape[1], per = score_rows(batch);
  return {.workspace = (batch + per - 1) / per * 3 * width * int64_t(sizeof(float))};
}

// dy (S, B), keys, query, v | sum of dkeys, sum of dv -> dkeys, dquery, dv
void run_grad(const KernelArgs& a) {
  const Shape& shape = a.in_spec[1].shape;
  const int64_t steps = shape[0], batch = shape[1], width = shape[2];
  const DType type = a.in_spec[1].dtype;
  const int64_t per = score_rows(batch), chunks = (batch + per - 1) / per;
  const void* keys_sum = input_if_present(a, 4);
  const float* v_sum = input_if_present<float>(a, 5);
  void* dkeys = a.out[0];
  float* workspace = reinterpret_cast<float*>(a.workspace);
  parallel_chunks(a.queue, batch, per, [&](int64_t begin, int64_t end) {
    alignas(64) float buffer[4][kTile];
    float* dv_chunk = workspace + begin / per * 3 * width;
    float *dv_row = dv_chunk + width, *dq_row = dv_row + width;
    std::fill_n(dv_chunk, width, 0.0f);
    for (int64_t b = begin; b < end; ++b) {
      std::fill_n(dv_row, 2 * width, 0.0f);
      for (int64_t s = 0; s < steps; ++s) {
        const float dy = load_one(a.in[0], type, s * batch + b);
        if (dy == 0 && (!dkeys || dkeys == keys_sum)) continue;
        for (int64_t j = 0; j < width; j += kTile) {
          const int64_t n = std::min(kTile, width - j), at = (s * batch + b) * width + j;
          const float* old = keys_sum ? load_tile(keys_sum, type, at, n, buffer[2]) : kZeros;
          float* dk = dkeys ? tile_to_fill(dkeys, type, at, buffer[3]) : buffer[3];
          if (dy == 0) {
            for (int64_t e = 0; e < n; ++e) dk[e] = old[e];
          } else {
            const float* k = load_tile(a.in[1], type, at, n, buffer[0]);
            const float* q = load_tile(a.in[2], type, b * width + j, n, buffer[1]);
            const float* v = a.input(3) + j;
            float *dq = dq_row + j, *dv = dv_row + j;
#pragma omp simd
            for (int64_t e = 0; e < n; ++e) {
              const float t = tanh(k[e] + q[e]);
              const float d = dy * v[e] * (1 - t * t);
              dk[e] = old[e] + d;
              dq[e] += d;
              dv[e] += dy * t;
            }
          }
          if (dkeys && type != DType::f32) store_tile(dkeys, type, at, n, dk);
        }
      }
#pragma omp simd
      for (int64_t e = 0; e < width; ++e) dv_chunk[e] += dv_row[e];
      for (int64_t j = 0; a.out[1] && j < width; j += kTile) {  // which may lie over the query
        store_tile(a.out[1], type, b * width + j, std::min(kTile, width - j), dq_row + j);
      }
    }
  });
  if (!a.out[2]) return;
  sum_partials(a.output(2), workspace, chunks, 3 * width, width, v_sum);
}

}  // namespace

const OpDef mlp_score_op{
    .name = "mlp_score",
    .formula = "y[s,b] = v . tanh(k[s,b,:] + q[b,:])",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() == 3, "takes keys, query, v");
      check(in[0], in[1], in[2]);
      return {{in[0].shape.without(2), in[0].dtype}};
    },
    .gradient =
        [](GradientArgs& g) {
          const Val keys_sum = g.take_sum(0), v_sum = g.take_sum(2);
          g.give_all(g.builder.emit(mlp_score_grad_op,
                                    {g.dy(), g.in(0), g.in(1), g.in(2), keys_sum, v_sum}));
        },
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
      return {23.0 * double(in[0].numel()), double(in[0].bytes() + out[0].bytes())};
    },
    .cpu = {.run = run},
    .cuda = &mlp_score_cuda,
    .examples = {{.operands = {example({3, 2, 5}), example({2, 5}), example({5})}},
                 {.operands = {example({4, 5, 33}, DType::bf16), example({5, 33}, DType::bf16),
                               example({33})}},
                 {.operands = {example({3, 37, 530}), example({37, 530}), example({530})}},
                 {.operands = {example({3, 5, 520}, DType::bf16), example({5, 520}, DType::bf16),
                               example({520})}}},
};

const OpDef mlp_score_grad_op{
    .name = "mlp_score_grad",
    .formula = "d = dy v (1 - tanh^2): dk = sum + d, dq = sum_s d, dv = sum + dy tanh",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() == 6, "takes dy, keys, query, v, sum of dkeys, sum of dv");
      check(in[1], in[2], in[3]);
      require(in[0].dtype == in[1].dtype && in[0].shape == in[1].shape.without(2), in[0], ", ",
              in[1], ": dy is not like the score");
      require((!present(in[4]) || in[4] == in[1]) && (!present(in[5]) || in[5] == in[3]), in[4],
              ", ", in[5], ": the sums are not like keys and v");
      return {plain(in[1]), plain(in[2]), plain(in[3])};
    },
    .optional_from = 4,
    .shares = {{0, 4}, {0, 1}, {1, 2}, {2, 5}},
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
      const double reads = present(in[4]) ? 2 : 1;
      return {28.0 * double(in[1].numel()), reads * double(in[1].bytes()) + double(out[0].bytes())};
    },
    .cpu = {.run = run_grad, .prepare = prepare_grad},
    .cuda = &mlp_score_grad_cuda,
    .examples = {{.operands = {example({3, 2}), example({3, 2, 5}), example({2, 5}), example({5}),
                               absent_example(), absent_example()}},
                 {.operands = {example({3, 2}), example({3, 2, 5}), example({2, 5}), example({5}),
                               example({3, 2, 5}), absent_example()}},
                 {.operands = {example({4, 5}, DType::bf16), example({4, 5, 33}, DType::bf16),
                               example({5, 33}, DType::bf16), example({33}),
                               example({4, 5, 33}, DType::bf16), example({33})}},
                 {.operands = {example({3, 37}), example({3, 37, 530}), example({37, 530}),
                               example({530}), example({3, 37, 530}), example({530})}},
                 {.operands = {example({34, 37}, DType::bf16), example({34, 37, 136}, DType::bf16),
                               example({37, 136}, DType::bf16), example({136}),
                               example({34, 37, 136}, DType::bf16), example({136})}}},
};

Val mlp_score(Val keys, Val query, Val v) {
  return keys.builder->emit1(mlp_score_op, {keys, query, v});
}

Val mlp_score_unfused(Val keys, Val query, Val v) {
  return dot_last(tanh(add_broadcast(keys, query)), v);
}

}  // namespace pal
