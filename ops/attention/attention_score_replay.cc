// The gradient of mlp_score_unfused in one pass, with its sum and its tanh computed again on the
// way:
//   t = tanh(k + q), d[s,b,:] = dy[s,b] v (1 - t^2):  dk = sum + d, dq = sum_s d, dv = sum + dy t
// What mlp_score_grad computes, but with every addition in the order in which the separate nodes
// make it, so that the results are their bits: dv in chunks of rows [s,b] (ops/sums/dot_last.cc),
// dq over s in runs and chunks (ops/sums/reduce.cc). A task has some columns of everything, and
// goes through the rows in order, so it needs no partial sums of other tasks. f32 only: in other
// types each separate node rounds what it stores.
#include <algorithm>

#include "core/builder.h"
#include "ops/attention/attention_score.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/rows.h"
#include "ops/kernels/tiles.h"
#include "ops/sums/dot_last.h"
#include "ops/sums/reduce.h"

namespace pal {
namespace {

constexpr int64_t kColumns = 128;  // of a task

// dy (S, B), keys (S, B, A), query (B, A), v (A) | sum of dkeys, sum of dv
Prepared prepare(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  // dq of one run of steps and of one chunk, where there are several.
  const int64_t steps = in[1].shape[0];
  return {.workspace = ((steps > kSumRun) + (steps > kSumRows)) * in[2].bytes()};
}

struct Columns {
  const float *dy, *keys, *query, *v, *keys_sum, *v_sum;
  float *dkeys, *dquery, *dv, *workspace;
  int64_t steps, batch, width;

  void run(int64_t column, int64_t n) const {
    alignas(64) float chunk[kColumns], total[kColumns] = {};
    const int64_t rows = steps * batch, per_chunk = rows_per_partial(rows);
    // Runs are summed in the workspace, and so are chunks, where there are several of them.
    float* dq_run = steps > kSumRun ? workspace : dquery;
    float* dq_chunk = steps > kSumRows ? workspace + batch * width : dquery;
    if (dquery) clear(dquery, column, n);
    for (int64_t s = 0; s < steps; ++s) {
      if (dquery && s % kSumRun == 0) clear(dq_run, column, n);
      if (dquery && s % kSumRows == 0) clear(dq_chunk, column, n);
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t row = s * batch + b;
        if (row % per_chunk == 0) std::fill_n(chunk, n, 0.0f);
        one_row(row, b, column, n, chunk, dquery ? dq_run : nullptr);
        if ((row + 1) % per_chunk == 0 || row + 1 == rows) {
          for (int64_t e = 0; e < n; ++e) total[e] += chunk[e];
        }
      }
      const bool last = s + 1 == steps;
      if (!dquery) continue;
      if ((s + 1) % kSumRun == 0 || last) add(dq_run, dq_chunk, column, n);
      if ((s + 1) % kSumRows == 0 || last) add(dq_chunk, dquery, column, n);
    }
    if (!dv) return;
    for (int64_t e = 0; e < n; ++e)
      dv[column + e] = v_sum ? total[e] + v_sum[column + e] : total[e];
  }

 private:
  void one_row(int64_t row, int64_t b, int64_t column, int64_t n, float* chunk, float* dq) const {
    alignas(64) float unread[kColumns], no_sum[kColumns] = {};
    const float g = dy[row];
    const float *k = keys + row * width + column, *q = query + b * width + column;
    const float* vc = v + column;
    float* dk = dkeys ? dkeys + row * width + column : unread;
    float* to = dq ? dq + b * width + column : no_sum;
    const float* old = keys_sum ? keys_sum + row * width + column : nullptr;
    alignas(64) float d[kColumns];
#pragma omp simd
    for (int64_t e = 0; e < n; ++e) {
      const float t = tanh(k[e] + q[e]);
      d[e] = g * vc[e] * (1 - t * t);
      chunk[e] += g * t;
    }
#pragma omp simd
    for (int64_t e = 0; e < n; ++e) to[e] += d[e];
    if (old) {
#pragma omp simd
      for (int64_t e = 0; e < n; ++e) dk[e] = old[e] + d[e];
    } else {
      std::copy_n(d, n, dk);
    }
  }
  void clear(float* dq, int64_t column, int64_t n) const {
    for (int64_t b = 0; b < batch; ++b) std::fill_n(dq + b * width + column, n, 0.0f);
  }
  void add(const float* part, float* sum, int64_t column, int64_t n) const {
    for (int64_t b = 0; b < batch && part != sum; ++b) {
      const float* from = part + b * width + column;
      float* to = sum + b * width + column;
      for (int64_t e = 0; e < n; ++e) to[e] += from[e];
    }
  }
};

void run(const KernelArgs& a) {
  const Shape& shape = a.in_spec[1].shape;
  const Columns columns{.dy = a.input(0),
                        .keys = a.input(1),
                        .query = a.input(2),
                        .v = a.input(3),
                        .keys_sum = input_if_present<float>(a, 4),
                        .v_sum = input_if_present<float>(a, 5),
                        .dkeys = a.output(0),
                        .dquery = a.output(1),
                        .dv = a.output(2),
                        .workspace = reinterpret_cast<float*>(a.workspace),
                        .steps = shape[0],
                        .batch = shape[1],
                        .width = shape[2]};
  const int64_t width = shape[2], tasks = (width + kColumns - 1) / kColumns;
  parallel_chunks(a.queue, tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      columns.run(task * kColumns, std::min(kColumns, width - task * kColumns));
    }
  });
}

// The nodes around dot_last_grad (dy, t, v | sum of dv), with and without what was summed before.
std::vector<FusedPattern> patterns(SpecSpan in, const Attrs&) {
  const TensorSpec &t = in[1], &v = in[2];
  if (t.shape.rank() != 3 || t.dtype != DType::f32) return {};
  if (t.shape[0] > kSumRows * kSumChunks) return {};  // dq's chunks would be summed by groups
  std::vector<FusedPattern> out;
  for (const bool keys_sum : {true, false}) {
    Builder b;
    const Val dy = b.input("dy", plain(in[0])), keys = b.input("keys", plain(t));
    const Val query = b.input("query", {t.shape.without(0), t.dtype}), vector = b.input("v", v);
    const Val keys_before = keys_sum ? b.input("sum of dkeys", plain(t)) : Val{};
    const Val v_before = present(in[3]) ? b.input("sum of dv", v) : Val{};
    b.set_phase(Phase::recompute);
    const Val tanh_again = tanh(add_broadcast(keys, query));
    b.set_phase(Phase::backward);
    const std::vector<Val> d = b.emit(dot_last_grad_op, {dy, tanh_again, vector, v_before});
    const Val dsum = b.emit1(tanh_grad_op, {d[0], tanh_again});
    const Val dquery = sum_leading(dsum);
    const Val dkeys = keys_sum ? add(keys_before, dsum) : dsum;
    out.push_back({.program = b.take(),
                   .in = {dy.id, keys.id, query.id, vector.id, keys_before.id, v_before.id},
                   .out = {dkeys.id, dquery.id, d[1].id}});
  }
  return out;
}

}  // namespace

const Rewrite mlp_score_replay_rewrite{
    .op = &mlp_score_replay_grad_op, .anchor = &dot_last_grad_op, .patterns = patterns};

const OpDef mlp_score_replay_grad_op{
    .name = "mlp_score_replay_grad",
    .formula = "d = dy v (1 - tanh^2): dk = sum + d, dq = sum_s d, dv = sum + dy tanh",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() == 6, "takes dy, keys, query, v, sum of dkeys, sum of dv");
      const TensorSpec &dy = in[0], &keys = in[1], &query = in[2], &v = in[3];
      require(keys.shape.rank() == 3 && keys.dtype == DType::f32 &&
                  dy == TensorSpec{keys.shape.without(2)} &&
                  query == TensorSpec{keys.shape.without(0)} && v == TensorSpec{{keys.shape[2]}},
              dy, ", ", keys, ", ", query, ", ", v,
              ": want dy (S, B), keys (S, B, A), query (B, A), v (A) of f32");
      require((!present(in[4]) || in[4] == keys) && (!present(in[5]) || in[5] == v), in[4], ", ",
              in[5], ": the sums are not like keys and v");
      return {plain(keys), plain(query), plain(v)};
    },
    .optional_from = 4,
    .shares = {{0, 4}, {0, 1}, {2, 5}},
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
      const double reads = present(in[4]) ? 2 : 1;
      return {28.0 * double(in[1].numel()), reads * double(in[1].bytes()) + double(out[0].bytes())};
    },
    .cpu = {.run = run, .prepare = prepare},
    .cuda = &mlp_score_replay_grad_cuda,
    .examples = {{.operands = {example({3, 2}), example({3, 2, 5}), example({2, 5}), example({5}),
                               absent_example(), absent_example()}},
                 {.operands = {example({3, 2}), example({3, 2, 5}), example({2, 5}), example({5}),
                               example({3, 2, 5}), absent_example()}},
                 {.operands = {example({3, 37}), example({3, 37, 530}), example({37, 530}),
                               example({530}), example({3, 37, 530}), example({530})}},
                 {.operands = {example({530, 2}), example({530, 2, 9}), example({2, 9}),
                               example({9}), absent_example(), example({9})}}},
};

}  // namespace pal
