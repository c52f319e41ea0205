// attention_step: out[b] = sum_s p_s v_s, p = softmax over s of q[b] . k_s / sqrt(d), a head at a
// time, where s goes through the first lengths[b] rows of a cache and then the query's own key. The
// cache's row of b may lie in another sentence's place: from[s, b]. Bound by memory: each key and
// value is read once.
#include "ops/attention/attention_step.h"

#include <algorithm>
#include <cmath>

#include "core/builder.h"
#include "ops/attention/attention_kernel.h"
#include "ops/kernels/math.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/rows.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

constexpr int64_t kKeys = 64;  // whose scores are kept at once

// The softmax-weighted sum of values, as far as it has got.
struct Running {
  float top = -__builtin_huge_valf(), total = 0;
  float sum[kWidestHead];

  explicit Running(int64_t width) { std::fill_n(sum, width, 0.0f); }
  // Makes room for scores up to `most`.
  void raise(float most, int64_t width) {
    if (most <= top) return;
    const float shrink = exp(top - most);
    total *= shrink, top = most;
#pragma omp simd
    for (int64_t e = 0; e < width; ++e) sum[e] *= shrink;
  }
  void add(float weight, const float* value, int64_t width) {
#pragma omp simd
    for (int64_t e = 0; e < width; ++e) sum[e] += weight * value[e];
  }
};

void run(const KernelArgs& a) {
  const Shape& cache = a.in_spec[1].shape;
  const int64_t keys = cache[0], batch = cache[1], heads = a.attrs.as<AttentionStepAttrs>().heads;
  const int64_t width = cache[2] / heads;
  const DType type = a.in_spec[0].dtype;
  const int32_t* lengths = a.input<int32_t>(3);
  const bool one = a.in_spec[3].shape[0] == 1;
  const void *own_key = input_if_present(a, 4), *own_value = input_if_present(a, 5);
  const auto* from = input_if_present<int32_t>(a, 6);
  const float scale = 1 / std::sqrt(float(width));
  parallel_chunks(a.queue, batch * heads, heads, [&](int64_t begin, int64_t end) {
    alignas(64) float buffer[2][kWidestHead], score[kKeys];
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t b = unit / heads;
      const int64_t limit = std::clamp<int64_t>(lengths[one ? 0 : b], 0, keys);
      const float* q = load_tile(a.in[0], type, unit * width, width, buffer[0]);
      auto fit = [&](const void* data, int64_t at) {
        const float* k = load_tile(data, type, at, width, buffer[1]);
        return scale * row_sum(width, [&](int64_t e) { return q[e] * k[e]; });
      };
      Running running(width);
      auto take = [&](const void* values, int64_t at, float x) {
        const float weight = exp(x - running.top);
        running.total += weight;
        running.add(weight, load_tile(values, type, at, width, buffer[1]), width);
      };
      for (int64_t s = 0; s < limit; s += kKeys) {
        const int64_t n = std::min(kKeys, limit - s);
        auto at = [&](int64_t e) {
          const int64_t row = cached_row(from, s + e, b, batch);
          return ((s + e) * batch * heads + row * heads + unit % heads) * width;
        };
        float most = -__builtin_huge_valf();
        for (int64_t e = 0; e < n; ++e) most = std::max(most, score[e] = fit(a.in[1], at(e)));
        running.raise(most, width);
        for (int64_t e = 0; e < n; ++e) take(a.in[2], at(e), score[e]);
      }
      if (own_key) {
        const float x = fit(own_key, unit * width);
        running.raise(x, width);
        take(own_value, unit * width, x);
      }
      const float inverse = running.total > 0 ? 1 / running.total : 0;
      for (int64_t e = 0; e < width; ++e) running.sum[e] *= inverse;
      store_tile(a.out[0], type, unit * width, width, running.sum);
    }
  });
}

Specs infer(SpecSpan in, const Attrs& attrs) {
  require(in.size() == 7, "takes q, keys, values, lengths, key, value, from");
  const TensorSpec &q = in[0], &keys = in[1], &lengths = in[3];
  auto text = [&] { return join_parts(q, ", ", keys, ", ", in[2]); };
  require(is_float(q.dtype) && q.shape.rank() == 2 && keys.shape.rank() == 3 && in[2] == keys &&
              keys.dtype == q.dtype && keys.shape.without(0) == q.shape,
          text, ": want (B, D), (S, B, D), (S, B, D), all of one float type");
  const int64_t heads = attrs.as<AttentionStepAttrs>().heads, width = q.shape[1];
  require(heads > 0 && width % heads == 0 && width / heads <= kWidestHead, text, ": ", heads,
          " heads do not divide the last axis into at most ", kWidestHead, " columns each");
  require(lengths.dtype == DType::i32 && lengths.shape.rank() == 1 &&
              (lengths.shape[0] == 1 || lengths.shape[0] == q.shape[0]),
          lengths, ": want lengths i32[1] or i32[", q.shape[0], "]");
  require(present(in[4]) == present(in[5]) && (!present(in[4]) || (in[4] == q && in[5] == q)),
          in[4], ", ", in[5], ": the own key and value, both or none, ", "should be ", q);
  const TensorSpec from{{keys.shape[0], keys.shape[1]}, DType::i32};
  require(!present(in[6]) || in[6] == from, in[6], ": want a row for each of the cache's, ", from);
  return {plain(q)};
}

std::vector<Example> examples() {
  auto integers = [](Shape shape, float most) {
    return ExampleOperand{{shape, DType::i32}, 0, most, false, false};
  };
  auto value = [](Shape shape, DType type = DType::f32) { return example(shape, type, -1, 1); };
  return {{.operands = {value({3, 8}), value({5, 3, 8}), value({5, 3, 8}), integers({3}, 5),
                        absent_example(), absent_example(), absent_example()},
           .attrs = AttentionStepAttrs{2}},
          {.operands = {value({3, 6}), value({4, 3, 6}), value({4, 3, 6}), integers({1}, 4),
                        value({3, 6}), value({3, 6}), absent_example()},
           .attrs = AttentionStepAttrs{1}},
          {.operands = {value({3, 6}), value({4, 3, 6}), value({4, 3, 6}), integers({1}, 4),
                        value({3, 6}), value({3, 6}), integers({4, 3}, 2)},
           .attrs = AttentionStepAttrs{2}},
          {.operands = {value({2, 6}, DType::bf16), value({4, 2, 6}, DType::bf16),
                        value({4, 2, 6}, DType::bf16), integers({2}, 4), value({2, 6}, DType::bf16),
                        value({2, 6}, DType::bf16), integers({4, 2}, 1)},
           .attrs = AttentionStepAttrs{3}},
          {.operands = {value({9, 80}), value({150, 9, 80}), value({150, 9, 80}),
                        integers({9}, 150), value({9, 80}), value({9, 80}), absent_example()},
           .attrs = AttentionStepAttrs{2}}};
}

}  // namespace

const OpDef attention_step_op{
    .name = "attention_step",
    .formula = "softmax(q·kᵀ / √d)·v of one query a sentence, a head at a time",
    .infer = infer,
    .optional_from = 4,
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
      return streaming_cost(4 * double(in[1].numel()), in, out);
    },
    .cpu = {.run = run},
    .cuda = &attention_step_cuda,
    .examples = examples(),
};

Val attention_step(Val q, Val keys, Val values, Val lengths, int64_t heads, Val key, Val value,
                   Val from) {
  return q.builder->emit1(attention_step_op, {q, keys, values, lengths, key, value, from},
                          AttentionStepAttrs{heads});
}

}  // namespace pal
