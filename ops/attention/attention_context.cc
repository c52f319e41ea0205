// attention_context: c[b,h] = sum_s w[s,b] v[s,b,h]      dw = dot_score(v, dc), dv += w dc
// dot_score:         y[s,b] = k[s,b,:] . q[b,:]          dk += dy q, dq = attention_context(dy, k)
// add_outer:         z[s,b,h] = sum[s,b,h] + w[s,b] x[b,h]
// Luong et al. 2015, eqs. 7-8. Keys and values are read at every decoder step, so their gradients
// are added in place to the sum of the steps before.
#include "ops/attention/attention_context.h"

#include <algorithm>

#include "core/gradient.h"
#include "ops/attention/scores.h"
#include "ops/kernels/operands.h"

namespace pal {
namespace {

constexpr int64_t kGroup = 4;  // batch rows summed together: neighbours in memory

std::string specs(SpecSpan in) {
  std::string text;
  for (auto& spec : in) text += (text.empty() ? "" : ", ") + to_string(spec);
  return text;
}

// wide (S, B, H), x (B, H), coefficients (S, B), where they are given.
void check(SpecSpan in, const TensorSpec& wide, const TensorSpec* x,
           const TensorSpec* coefficients) {
  bool ok = wide.shape.rank() == 3 && is_float(wide.dtype);
  if (ok && x) ok = x->dtype == wide.dtype && x->shape == wide.shape.without(0);
  if (ok && coefficients) {
    ok = coefficients->dtype == wide.dtype && coefficients->shape == wide.shape.without(2);
  }
  require(ok, specs(in), ": want (S, B, H) with (S, B) or (B, H), all of one float type");
}

void run_context(const KernelArgs& a) {
  const Shape& shape = a.in_spec[1].shape;
  const int64_t steps = shape[0], batch = shape[1], width = shape[2];
  const DType type = a.in_spec[1].dtype;
  const int64_t tiles = (width + kTile - 1) / kTile, groups = (batch + kGroup - 1) / kGroup;
  parallel_chunks(a.queue, groups * tiles, 1, [&](int64_t unit, int64_t) {
    const int64_t first = unit / tiles * kGroup, last = std::min(batch, first + kGroup);
    const int64_t j = unit % tiles * kTile, n = std::min(kTile, width - j);
    alignas(64) float sum[kGroup][kTile] = {};
    alignas(64) float buffer[kTile];
    for (int64_t s = 0; s < steps; ++s) {
      for (int64_t b = first; b < last; ++b) {
        const float weight = load_one(a.in[0], type, s * batch + b);
        if (weight == 0) continue;
        const float* v = load_tile(a.in[1], type, (s * batch + b) * width + j, n, buffer);
        float* to = sum[b - first];
#pragma omp simd
        for (int64_t e = 0; e < n; ++e) to[e] += weight * v[e];
      }
    }
    for (int64_t b = first; b < last; ++b) {
      store_tile(a.out[0], type, b * width + j, n, sum[b - first]);
    }
  });
}

void run_dot_score(const KernelArgs& a) {
  run_score(a, kElementGrain, [](float key, float query, int64_t) { return key * query; });
}

void run_add_outer(const KernelArgs& a) {
  const Shape& shape = a.out_spec[0].shape;
  const int64_t rows = shape[0] * shape[1], batch = shape[1], width = shape[2];
  const DType type = a.out_spec[0].dtype;
  const void* sum = input_if_present(a, 2);
  void* out = a.out[0];
  parallel_chunks(a.queue, rows, rows_of_chunk(width), [&](int64_t begin, int64_t end) {
    alignas(64) float buffer[3][kTile];
    for (int64_t row = begin; row < end; ++row) {
      const float w = load_one(a.in[0], type, row);
      if (w == 0 && sum == out) continue;
      for (int64_t j = 0; j < width; j += kTile) {
        const int64_t n = std::min(kTile, width - j), at = row * width + j;
        float* y = tile_to_fill(out, type, at, buffer[2]);
        const float* old = sum ? load_tile(sum, type, at, n, buffer[0]) : nullptr;
        const float* x = load_tile(a.in[1], type, row % batch * width + j, n, buffer[1]);
        if (w == 0) {  // as the sum left it, whatever x holds
          for (int64_t e = 0; e < n; ++e) y[e] = old ? old[e] : 0;
        } else if (old) {
#pragma omp simd
          for (int64_t e = 0; e < n; ++e) y[e] = old[e] + w * x[e];
        } else {
#pragma omp simd
          for (int64_t e = 0; e < n; ++e) y[e] = w * x[e];
        }
        if (type != DType::f32) store_tile(out, type, at, n, y);
      }
    }
  });
}

Cost cost(SpecSpan in, SpecSpan out, const Attrs&) {
  double elements = double(out[0].numel());
  for (auto& spec : in) elements = std::max(elements, present(spec) ? double(spec.numel()) : 0);
  return streaming_cost(2 * elements, in, out);
}

}  // namespace

const OpDef attention_context_op{
    .name = "attention_context",
    .formula = "c[b,h] = sum_s w[s,b] v[s,b,h]",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() == 2, "takes weights and values");
      check(in, in[1], nullptr, in.data());
      return {{in[1].shape.without(0), in[1].dtype}};
    },
    .gradient =
        [](GradientArgs& g) {
          if (g.wants(0)) g.give(0, dot_score(g.in(1), g.dy()));
          if (g.wants(1)) g.give(1, add_outer(g.in(0), g.dy(), g.take_sum(1)));
        },
    .cost = cost,
    .cpu = {.run = run_context},
    .cuda = &attention_context_cuda,
    .examples = {{.operands = {example({3, 2}), example({3, 2, 5})}},
                 {.operands = {example({4, 5}, DType::bf16), example({4, 5, 33}, DType::bf16)}},
                 {.operands = {example({7, 9}), example({7, 9, 530})}},
                 {.operands = {example({34, 9}, DType::bf16), example({34, 9, 136}, DType::bf16)}}},
};

const OpDef dot_score_op{
    .name = "dot_score",
    .formula = "y[s,b] = k[s,b,:] . q[b,:]",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() == 2, "takes keys and query");
      check(in, in[0], &in[1], nullptr);
      return {{in[0].shape.without(2), in[0].dtype}};
    },
    .gradient =
        [](GradientArgs& g) {
          if (g.wants(0)) g.give(0, add_outer(g.dy(), g.in(1), g.take_sum(0)));
          if (g.wants(1)) g.give(1, attention_context(g.dy(), g.in(0)));
        },
    .cost = cost,
    .cpu = {.run = run_dot_score},
    .cuda = &dot_score_cuda,
    .examples = {{.operands = {example({3, 2, 5}), example({2, 5})}},
                 {.operands = {example({4, 5, 33}, DType::bf16), example({5, 33}, DType::bf16)}},
                 {.operands = {example({7, 9, 530}), example({9, 530})}},
                 {.operands = {example({7, 9, 520}, DType::bf16), example({9, 520}, DType::bf16)}}},
};

const OpDef add_outer_op{
    .name = "add_outer",
    .formula = "sum[s,b,h] + w[s,b] x[b,h]",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() == 3, "takes weights, x, sum");
      const TensorSpec &w = in[0], &x = in[1];
      require(w.shape.rank() == 2 && x.shape.rank() == 2, specs(in),
              ": want weights (S, B) and x (B, H)");
      const TensorSpec wide{x.shape.with_front(w.shape[0]), x.dtype};
      check(in, wide, &x, &w);
      require(!present(in[2]) || in[2] == wide, specs(in), ": the sum is not ", wide);
      return {wide};
    },
    .optional_from = 2,
    .shares = {{0, 2}},
    .cost = cost,
    .cpu = {.run = run_add_outer},
    .cuda = &add_outer_cuda,
    .examples = {{.operands = {example({3, 2}), example({2, 5}), example({3, 2, 5})}},
                 {.operands = {example({3, 2}), example({2, 5}), absent_example()}},
                 {.operands = {example({4, 5}, DType::bf16), example({5, 33}, DType::bf16),
                               example({4, 5, 33}, DType::bf16)}},
                 {.operands = {example({7, 9}), example({9, 530}), example({7, 9, 530})}}},
};

Val attention_context(Val weights, Val values) {
  return weights.builder->emit1(attention_context_op, {weights, values});
}
Val dot_score(Val keys, Val query) { return keys.builder->emit1(dot_score_op, {keys, query}); }
Val add_outer(Val weights, Val x, Val sum) {
  return weights.builder->emit1(add_outer_op, {weights, x, sum});
}

}  // namespace pal
