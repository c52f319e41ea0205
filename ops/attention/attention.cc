// attention: out = dropout(softmax(q k^T / sqrt(d), masked)) v, a head at a time, and lse, the log
// sum exp of each query's scaled scores: all that its gradient needs beside the operands, since it
// computes the probabilities again and draws the dropout's numbers again. Kernels and formulas are
// in ops/attention/attention_kernel.cc.
#include "ops/attention/attention.h"

#include <algorithm>
#include <cmath>

#include "core/gradient.h"
#include "core/scalars.h"
#include "ops/attention/attention_kernel.h"
#include "ops/attention/attention_operands.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/dropout.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/tiles.h"
#include "ops/losses/softmax.h"
#include "ops/products/batched_matmul.h"
#include "ops/tensors/views.h"

namespace pal {
namespace {

// q, k and v stand from `at` on, then lengths and scalars.
AttentionOperands check(SpecSpan in, const AttentionAttrs& a, size_t at) {
  const AttentionOperands o = attention_operands(in, at);
  auto text = [&] { return join_parts(in[at], ", ", in[at + 1], ", ", in[at + 2]); };
  require(a.heads > 0 && o.columns % a.heads == 0 && o.columns / a.heads <= kWidestHead, text, ": ",
          a.heads, " heads do not divide the last axis into at ", "most ", kWidestHead,
          " columns each");
  require(!a.causal || o.queries == o.keys, text, ": causal needs as many keys as queries");
  const TensorSpec &lengths = in[at + 3], &scalars = in[at + 4];
  require(!present(lengths) || lengths == TensorSpec{{o.batch}, DType::i32}, lengths,
          ": want lengths i32[", o.batch, "]");
  require(a.dropout >= 0 && a.dropout < 1, "dropout is ", print_float(double(a.dropout)),
          ", should be in [0, 1)");
  require(present(scalars) ? scalars == scalars_spec() : a.dropout == 0, scalars,
          ": dropout needs the step's scalars, ", scalars_spec());
  return o;
}

TensorSpec out_spec(const AttentionOperands& o) {
  return {{o.queries, o.batch, o.columns}, o.type};
}
TensorSpec lse_spec(const AttentionOperands& o, const AttentionAttrs& a) {
  return {{o.batch, a.heads, o.queries}};
}

AttentionCall call_of(const KernelArgs& a, const AttentionOperands& o, size_t at) {
  auto& attrs = a.attrs.as<AttentionAttrs>();
  AttentionCall call{.queries = o.queries,
                     .keys = o.keys,
                     .batch = o.batch,
                     .heads = attrs.heads,
                     .width = o.columns / attrs.heads,
                     .type = o.type,
                     .lengths = input_if_present<int32_t>(a, at + 3),
                     .causal = attrs.causal,
                     .dropout = attrs.dropout,
                     .key = {},
                     .q_pitch = o.q_pitch,
                     .kv_pitch = o.kv_pitch};
  if (attrs.dropout > 0) call.key = as_scalars(a.in[at + 4]).key(uint32_t(attrs.stream));
  return call;
}

void run_forward(const KernelArgs& a) {
  const AttentionOperands o = attention_operands(a.in_spec, kAttentionQ);
  const auto [q, k, v] = o.in(a.in, kAttentionQ);
  attention_forward(a.queue, call_of(a, o, kAttentionQ), q, k, v, a.out[0], a.output(1));
}
void run_backward(const KernelArgs& a) {
  const AttentionOperands o = attention_operands(a.in_spec, kAttentionGradQ);
  const auto [q, k, v] = o.in(a.in, kAttentionGradQ);
  const auto [dq, dk, dv] = o.in(a.out, 0);
  attention_backward(a.queue, call_of(a, o, kAttentionGradQ), q, k, v, a.in[0], a.input(1), a.in[2],
                     dq, dk, dv, reinterpret_cast<float*>(a.workspace));
}

void gradient(GradientArgs& g) {
  g.give_all(g.builder.emit(
      attention_grad_op, {g.out(0), g.out(1), g.dy(), g.in(0), g.in(1), g.in(2), g.in(3), g.in(4)},
      g.node.attrs));
}

// `products` of queries x keys x width, as many drawn factors as there are scores.
Cost cost(SpecSpan in, SpecSpan out, const AttentionAttrs& a, size_t at, double products) {
  const AttentionOperands o = attention_operands(in, at);
  const double scores = double(o.queries) * double(o.keys) * double(o.batch) * double(a.heads);
  const double used = a.causal ? 0.5 * scores : scores;
  const double flops =
      used * (2 * products * double(o.columns / a.heads) + (a.dropout > 0 ? 35 : 20));
  return streaming_cost(flops, in, out);
}

// Where dq is added up, if not in itself: by each worker.
Prepared prepare_grad(const Device& device, SpecSpan in, SpecSpan, const Attrs& attrs) {
  const AttentionOperands o = attention_operands(in, kAttentionGradQ);
  const int64_t width = o.columns / attrs.as<AttentionAttrs>().heads;
  return {.workspace = std::max(device.threads, 1) * dq_sums_bytes(o.type, o.queries, width)};
}

// Which of q, k and v lie side by side.
enum class Joined : uint8_t { none, kv, all };

struct Sizes {
  int64_t queries, keys, batch, width;
  DType type = DType::f32;
  Joined joined = Joined::none;
  Shape q() const { return {queries, batch, width}; }
};

Example example_of(Sizes s, AttentionAttrs attrs, bool lengths) {
  auto part = [&](int64_t rows, int64_t parts) {
    return parts ? example({rows, s.batch, parts * s.width}, s.type, -1, 1) : absent_example();
  };
  const bool apart = s.joined == Joined::none, all = s.joined == Joined::all;
  return {
      .operands = {part(s.queries, all ? 3 : 1),
                   part(s.keys, all     ? 0
                                : apart ? 1
                                        : 2),
                   part(s.keys, apart ? 1 : 0),
                   lengths ? example({s.batch}, DType::i32, 0, float(s.keys)) : absent_example(),
                   attrs.dropout > 0 ? random_scalars_example() : absent_example()},
      .attrs = attrs};
}
// Any numbers do for out and lse, if the probabilities stay small.
Example grad_example_of(Sizes s, AttentionAttrs attrs, bool lengths) {
  Example e = example_of(s, attrs, lengths);
  const Shape lse{s.batch, attrs.heads, s.queries};
  const std::vector<ExampleOperand> kept = {example(s.q(), s.type), example(lse, DType::f32, 0, 2),
                                            example(s.q(), s.type)};
  e.operands.insert(e.operands.begin(), kept.begin(), kept.end());
  return e;
}

std::vector<Example> examples_of(Example (*make)(Sizes, AttentionAttrs, bool)) {
  return {
      make({3, 5, 2, 8}, {.heads = 2}, true),
      make({4, 4, 2, 6}, {.heads = 2, .causal = true}, false),
      make({5, 5, 3, 6}, {.heads = 1, .causal = true, .dropout = 0.3f, .stream = 4}, true),
      make({2, 7, 2, 6, DType::bf16}, {.heads = 3, .dropout = 0.5f, .stream = 5}, false),
      make({37, 70, 2, 40}, {.heads = 2, .dropout = 0.1f, .stream = 6}, true),
      make({67, 67, 1, 34}, {.heads = 2, .causal = true}, false),
      make({5, 5, 2, 6, DType::f32, Joined::all}, {.heads = 2, .causal = true}, true),
      make({3, 7, 2, 8, DType::f32, Joined::kv}, {.heads = 2, .dropout = 0.3f, .stream = 4}, true),
      make({37, 37, 2, 48, DType::bf16, Joined::all}, {.heads = 3}, true),
      make({37, 70, 1, 48, DType::bf16, Joined::kv}, {.heads = 3}, false)};
}

std::vector<Example> grad_examples() {
  std::vector<Example> all = examples_of(grad_example_of);
  for (const size_t i : {0u, 3u}) {  // of the queries nobody wants one
    all.push_back(all[i]);
    all.back().unread = {1, 0, 0};
  }
  return all;
}

}  // namespace

AttentionOperands attention_operands(SpecSpan in, size_t first) {
  const TensorSpec &q = in[first], &k = in[first + 1], &v = in[first + 2];
  const int64_t in_q = present(k) ? 1 : 3, in_k = present(v) ? 1 : 2;
  const bool rows = is_float(q.dtype) && !q.layout && q.shape.rank() == 3 && q.shape[2] % in_q == 0;
  const int64_t T = rows ? q.shape[0] : 0, B = rows ? q.shape[1] : 0;
  const int64_t D = rows ? q.shape[2] / in_q : 0;
  const int64_t S = !present(k) ? T : k.shape[0];
  bool ok = rows && S > 0;
  if (present(k)) {
    ok = ok && k == TensorSpec{{S, B, in_k * D}, q.dtype} && (!present(v) || v == k);
  } else {
    ok = ok && !present(v);
  }
  auto text = [&] { return join_parts(q, ", ", k, ", ", v); };
  require(ok, text, ": want (T, B, D), (S, B, D), (S, B, D), all of one float type, or side by ",
          "side (T, B, D), (S, B, 2D), or (T, B, 3D)");
  return {.queries = T,
          .keys = S,
          .batch = B,
          .columns = D,
          .type = q.dtype,
          .q_pitch = in_q * D,
          .kv_pitch = (in_q == 3 ? 3 : in_k) * D};
}

const OpDef attention_op{
    .name = "attention",
    .formula = "dropout(softmax(q·kᵀ / √d))·v, a head at a time",
    .infer = [](SpecSpan in, const Attrs& attributes) -> Specs {
      auto& attrs = attributes.as<AttentionAttrs>();
      require(in.size() == 5, "takes q, k, v, lengths, scalars");
      const AttentionOperands o = check(in, attrs, kAttentionQ);
      return {out_spec(o), lse_spec(o, attrs)};
    },
    .gradient = gradient,
    .optional_from = 1,
    .shares = {{0, 0}},  // a tile of queries is copied before its result is written
    .cost = [](SpecSpan in, SpecSpan out, const Attrs& attrs) -> Cost {
      return cost(in, out, attrs.as<AttentionAttrs>(), kAttentionQ, 2);
    },
    .cpu = {.run = run_forward},
    .cuda = &attention_cuda,
    .examples = examples_of(example_of),
};

const OpDef attention_grad_op{
    .name = "attention_grad",
    .formula = "dq, dk, dv of attention, as these lie, its probabilities computed again",
    .infer = [](SpecSpan in, const Attrs& attributes) -> Specs {
      auto& attrs = attributes.as<AttentionAttrs>();
      require(in.size() == 8, "takes out, lse, dout, q, k, v, lengths, scalars");
      const AttentionOperands o = check(in, attrs, kAttentionGradQ);
      const TensorSpec lse = lse_spec(o, attrs);
      require(in[0] == out_spec(o) && in[2] == in[0] && in[1] == lse, in[0], ", ", in[1], ", ",
              in[2], ": out and dout should be ", out_spec(o), ", lse ", lse);
      Specs gradients;
      for (size_t k = kAttentionGradQ; k < kAttentionGradQ + 3; ++k) {
        if (present(in[k])) gradients.push_back(plain(in[k]));
      }
      return gradients;
    },
    .optional_from = kAttentionGradQ + 1,
    .cost = [](SpecSpan in, SpecSpan out, const Attrs& attrs) -> Cost {
      return cost(in, out, attrs.as<AttentionAttrs>(), kAttentionGradQ, 5);
    },
    .cpu = {.run = run_backward, .prepare = prepare_grad},
    .cuda = &attention_grad_cuda,
    .examples = grad_examples(),
};

Val attention(Val q, Val k, Val v, int64_t heads, AttentionMask mask, float p, Val scalars) {
  AttentionAttrs attrs{.heads = heads, .causal = mask.causal, .dropout = p};
  if (p > 0) attrs.stream = q.builder->next_stream();
  const auto out =
      q.builder->emit(attention_op, {q, k, v, mask.lengths, p > 0 ? scalars : Val{}}, attrs);
  q.builder->program().value(out[1].id).role = Role::statistic;
  return out[0];
}

Val attention_unfused(Val q, Val k, Val v, int64_t heads, AttentionMask mask, float p,
                      Val scalars) {
  const int64_t T = q.shape()[0], S = k.shape()[0], B = q.shape()[1], D = q.shape()[2];
  const int64_t d = D / heads, rows = B * heads;
  q = reshape(q, {T, rows, d}), k = reshape(k, {S, rows, d}), v = reshape(v, {S, rows, d});
  Val scores = batched_matmul(q, k, {.tb = true, .a_batch = 1, .b_batch = 1});  // (B H, T, S)
  scores = scale(scores, 1 / std::sqrt(float(d)));
  Val weights = softmax(scores, mask.lengths, mask.causal);
  if (p > 0) weights = dropout_apply(weights, dropout_mask(scalars, weights.spec(), p), p);
  Val out = batched_matmul(weights, v, {.b_batch = 1, .out_batch = 1});  // (T, B H, d)
  return reshape(out, {T, B, D});
}

}  // namespace pal
