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
#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/dropout.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/tiles.h"
#include "ops/losses/softmax.h"
#include "ops/products/batched_matmul.h"
#include "ops/tensors/views.h"

namespace pal {
namespace {

// q (T, B, D), k, v (S, B, D) come first in both operators; lengths and scalars from `optional` on.
void check(SpecSpan in, const AttentionAttrs& a, size_t optional) {
  const TensorSpec &q = in[0], &k = in[1];
  auto text = [&] { return join_parts(q, ", ", k, ", ", in[2]); };
  bool ok = is_float(q.dtype) && q.shape.rank() == 3 && k.shape.rank() == 3 && in[2] == k &&
            k.dtype == q.dtype && k.shape[0] > 0;
  for (int axis : {1, 2}) ok = ok && q.shape[axis] == k.shape[axis];
  require(ok, text, ": want (T, B, D), (S, B, D), (S, B, D), all of one float type");
  const int64_t width = q.shape[2];
  require(a.heads > 0 && width % a.heads == 0 && width / a.heads <= kWidestHead, text, ": ",
          a.heads, " heads do not divide the last axis into at ", "most ", kWidestHead,
          " columns each");
  require(!a.causal || q.shape[0] == k.shape[0], text, ": causal needs as many keys as queries");
  const TensorSpec &lengths = in[optional], &scalars = in[optional + 1];
  require(!present(lengths) || lengths == TensorSpec{{q.shape[1]}, DType::i32}, lengths,
          ": want lengths i32[", q.shape[1], "]");
  require(a.dropout >= 0 && a.dropout < 1, "dropout is ", print_float(double(a.dropout)),
          ", should be in [0, 1)");
  require(present(scalars) ? scalars == scalars_spec() : a.dropout == 0, scalars,
          ": dropout needs the step's scalars, ", scalars_spec());
}

TensorSpec lse_spec(SpecSpan in, const AttentionAttrs& a) {
  return {{in[0].shape[1], a.heads, in[0].shape[0]}};
}

AttentionCall call_of(const KernelArgs& a, size_t optional) {
  auto& attrs = a.attrs.as<AttentionAttrs>();
  const Shape& q = a.in_spec[0].shape;
  AttentionCall call{.queries = q[0],
                     .keys = a.in_spec[1].shape[0],
                     .batch = q[1],
                     .heads = attrs.heads,
                     .width = q[2] / attrs.heads,
                     .type = a.in_spec[0].dtype,
                     .lengths = input_if_present<int32_t>(a, optional),
                     .causal = attrs.causal,
                     .dropout = attrs.dropout,
                     .key = {}};
  if (attrs.dropout > 0) {
    call.key = as_scalars(a.in[optional + 1]).key(uint32_t(attrs.stream));
  }
  return call;
}

void gradient(GradientArgs& g) {
  g.give_all(g.builder.emit(
      attention_grad_op, {g.in(0), g.in(1), g.in(2), g.out(0), g.out(1), g.dy(), g.in(3), g.in(4)},
      g.node.attrs));
}

// `products` of queries x keys x width, as many drawn factors as there are scores.
Cost cost(SpecSpan in, SpecSpan out, const AttentionAttrs& a, double products) {
  const Shape& q = in[0].shape;
  const double scores = double(q[0]) * double(in[1].shape[0]) * double(q[1]) * double(a.heads);
  const double used = a.causal ? 0.5 * scores : scores;
  const double flops = used * (2 * products * double(q[2] / a.heads) + (a.dropout > 0 ? 35 : 20));
  return streaming_cost(flops, in, out);
}

// Where dq is added up, if not in itself: by each worker.
Prepared prepare_grad(const Device& device, SpecSpan in, SpecSpan, const Attrs& attrs) {
  const Shape& q = in[0].shape;
  const int64_t width = q[2] / attrs.as<AttentionAttrs>().heads;
  return {.workspace = std::max(device.threads, 1) * dq_sums_bytes(in[0].dtype, q[0], width)};
}

struct Sizes {
  int64_t queries, keys, batch, width;
  DType type = DType::f32;
  Shape q() const { return {queries, batch, width}; }
  Shape k() const { return {keys, batch, width}; }
};

Example example_of(Sizes s, AttentionAttrs attrs, bool lengths) {
  return {
      .operands = {example(s.q(), s.type, -1, 1), example(s.k(), s.type, -1, 1),
                   example(s.k(), s.type, -1, 1),
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
  e.operands.insert(e.operands.begin() + 3, kept.begin(), kept.end());
  return e;
}

std::vector<Example> examples_of(Example (*make)(Sizes, AttentionAttrs, bool)) {
  return {make({3, 5, 2, 8}, {.heads = 2}, true),
          make({4, 4, 2, 6}, {.heads = 2, .causal = true}, false),
          make({5, 5, 3, 6}, {.heads = 1, .causal = true, .dropout = 0.3f, .stream = 4}, true),
          make({2, 7, 2, 6, DType::bf16}, {.heads = 3, .dropout = 0.5f, .stream = 5}, false),
          make({37, 70, 2, 40}, {.heads = 2, .dropout = 0.1f, .stream = 6}, true),
          make({67, 67, 1, 34}, {.heads = 2, .causal = true}, false)};
}

}  // namespace

const OpDef attention_op{
    .name = "attention",
    .formula = "dropout(softmax(q·kᵀ / √d))·v, a head at a time",
    .infer = [](SpecSpan in, const Attrs& attributes) -> Specs {
      auto& attrs = attributes.as<AttentionAttrs>();
      require(in.size() == 5, "takes q, k, v, lengths, scalars");
      check(in, attrs, 3);
      return {plain(in[0]), lse_spec(in, attrs)};
    },
    .gradient = gradient,
    .optional_from = 3,
    .shares = {{0, 0}},  // a tile of queries is copied before its result is written
    .cost = [](SpecSpan in, SpecSpan out, const Attrs& attrs) -> Cost {
      return cost(in, out, attrs.as<AttentionAttrs>(), 2);
    },
    .cpu = {.run =
                [](const KernelArgs& a) {
                  attention_forward(a.queue, call_of(a, 3), a.in[0], a.in[1], a.in[2], a.out[0],
                                    a.output(1));
                }},
    .cuda = &attention_cuda,
    .examples = examples_of(example_of),
};

const OpDef attention_grad_op{
    .name = "attention_grad",
    .formula = "dq, dk, dv of attention, its probabilities computed again",
    .infer = [](SpecSpan in, const Attrs& attributes) -> Specs {
      auto& attrs = attributes.as<AttentionAttrs>();
      require(in.size() == 8, "takes q, k, v, out, lse, dout, lengths, scalars");
      check(in, attrs, 6);
      require(in[3] == in[0] && in[5] == in[0] && in[4] == lse_spec(in, attrs), in[3], ", ", in[4],
              ", ", in[5], ": out and dout should be as q, lse ", lse_spec(in, attrs));
      return {plain(in[0]), plain(in[1]), plain(in[2])};
    },
    .optional_from = 6,
    .cost = [](SpecSpan in, SpecSpan out, const Attrs& attrs) -> Cost {
      return cost(in, out, attrs.as<AttentionAttrs>(), 5);
    },
    .cpu = {.run =
                [](const KernelArgs& a) {
                  attention_backward(a.queue, call_of(a, 6), a.in[0], a.in[1], a.in[2], a.in[3],
                                     a.input(4), a.in[5], a.out[0], a.out[1], a.out[2],
                                     reinterpret_cast<float*>(a.workspace));
                },
            .prepare = prepare_grad},
    .cuda = &attention_grad_cuda,
    .examples = examples_of(grad_example_of),
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
