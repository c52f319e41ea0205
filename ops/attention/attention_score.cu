// Bahdanau's score with its gradients. Sums run in the CPU's order, so that the bits are its own;
// where a sum goes down the positions, a thread has a column.
#include "ops/attention/attention_score.h"
#include "ops/attention/cuda_scores.h"
#include "ops/kernels/operands.h"
#include "ops/sums/reduce.h"

namespace pal {
namespace {

void run_mlp_score(const KernelArgs& a) { run_score(a, MlpScore{}); }

// ---- the gradients of mlp_score ----
//
//   t = tanh(k + q), d[s,b,:] = dy[s,b] v (1 - t^2):  dk = sum + d, dq = sum_s d, dv = sum + dy t
//
// dv is taken first, as dk may lie over the keys: its partial sums into the workspace.

struct ScoreGrad {
  Stored dy, keys, query, v, keys_sum, dkeys, dquery;
  ScoreExtents e;
};

// mlp_score_grad's chunk: `per` rows of the batch, all steps of them, step by step.
__global__ void score_dv_kernel(float* partial, ScoreGrad a, int64_t per) {
  const auto [chunk, c] = chunk_and_column(a.e.width);
  if (c >= a.e.width) return;
  const int64_t begin = chunk * per;
  const int64_t end = begin + per < a.e.batch ? begin + per : a.e.batch;
  float sum = 0;
  for (int64_t s = 0; s < a.e.steps; ++s) {
    for (int64_t b = begin; b < end; ++b) {
      const float dy = load1(a.dy, s * a.e.batch + b);
      if (dy == 0) continue;
      const float k = load1(a.keys, (s * a.e.batch + b) * a.e.width + c);
      sum += dy * tanh(k + load1(a.query, b * a.e.width + c));
    }
  }
  partial[chunk * a.e.width + c] = sum;
}
// dk and dq of one column (b, c).
__global__ void score_grad_kernel(ScoreGrad a) {
  const int64_t i = thread_number();  // b * width + c
  if (i >= a.e.batch * a.e.width) return;
  const int64_t b = divide(i, a.e.width), c = i - b * a.e.width;
  const float q = load1(a.query, i), v = load1(a.v, c);
  float dq = 0;
  for (int64_t s = 0; s < a.e.steps; ++s) {
    const int64_t at = s * a.e.batch * a.e.width + i;
    const float dy = load1(a.dy, s * a.e.batch + b);
    if (dy == 0 && (!a.dkeys.data || a.dkeys.data == a.keys_sum.data)) continue;
    const float old = a.keys_sum.data ? load1(a.keys_sum, at) : 0;
    float dk = old;
    if (dy != 0) {
      const float t = tanh(load1(a.keys, at) + q);
      const float d = dy * v * (1 - t * t);
      dk = old + d;
      dq += d;
    }
    if (a.dkeys.data) store1(a.dkeys, at, dk);
  }
  if (a.dquery.data) store1(a.dquery, i, dq);
}

ScoreGrad score_grad(const KernelArgs& a) {
  return {.dy = stored(a.in[0], a.in_spec[0]),
          .keys = stored(a.in[1], a.in_spec[1]),
          .query = stored(a.in[2], a.in_spec[2]),
          .v = stored(a.in[3], a.in_spec[3]),
          .keys_sum = stored(input_if_present(a, 4), a.in_spec[1]),
          .dkeys = stored(a.out[0], a.out_spec[0]),
          .dquery = stored(a.out[1], a.out_spec[1]),
          .e = extents_of(a.in_spec[1])};
}
void finish_dv(const KernelArgs& a, const float* partial, int64_t chunks) {
  const int64_t width = a.in_spec[3].shape[0];
  sum_partials(a, stored(a.out[2], a.out_spec[2]), partial, chunks, width, width,
               stored(input_if_present(a, 5), a.out_spec[2]));
}
void run_mlp_score_grad(const KernelArgs& a) {
  const ScoreGrad grad = score_grad(a);
  const int64_t per = rows_per_partial(grad.e.batch), chunks = blocks_of(grad.e.batch, per);
  float* partial = reinterpret_cast<float*>(a.workspace);
  if (a.out[2]) {
    launch(score_dv_kernel, {blocks_of(grad.e.width, kColumnThreads) * chunks}, kColumnThreads, a,
           partial, grad, per);
  }
  if (a.out[0] || a.out[1]) {
    launch(score_grad_kernel, {blocks_of(grad.e.batch * grad.e.width, kColumnThreads)},
           kColumnThreads, a, grad);
  }
  if (a.out[2]) finish_dv(a, partial, chunks);
}
Prepared prepare_mlp_score_grad(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  const int64_t batch = in[2].shape[0];
  return {.workspace =
              blocks_of(batch, rows_per_partial(batch)) * in[3].shape[0] * int64_t(sizeof(float))};
}

// The same from mlp_score_unfused's nodes, with their sums' order
// (ops/attention/attention_score_replay.cc): dv in chunks of rows [s,b], dq in blocks of kSumRows
// steps. f32 only.
__global__ void score_replay_dv_kernel(float* partial, ScoreGrad a, int64_t per_chunk) {
  const int64_t rows = a.e.steps * a.e.batch;
  const auto [chunk, c] = chunk_and_column(a.e.width);
  if (c >= a.e.width) return;
  const int64_t begin = chunk * per_chunk;
  const int64_t end = begin + per_chunk < rows ? begin + per_chunk : rows;
  float sum = 0;
  for (int64_t row = begin; row < end; ++row) {
    const float k = load1(a.keys, row * a.e.width + c);
    const int64_t b = row - divide(row, a.e.batch) * a.e.batch;
    const float q = load1(a.query, b * a.e.width + c);
    sum += load1(a.dy, row) * tanh(k + q);
  }
  partial[chunk * a.e.width + c] = sum;
}
__global__ void score_replay_grad_kernel(ScoreGrad a) {
  const int64_t i = thread_number();  // b * width + c
  if (i >= a.e.batch * a.e.width) return;
  const int64_t b = divide(i, a.e.width), c = i - b * a.e.width;
  const float q = load1(a.query, i), v = load1(a.v, c);
  float block = 0, dq = 0;
  for (int64_t s = 0; s < a.e.steps; ++s) {
    const int64_t at = s * a.e.batch * a.e.width + i;
    const float t = tanh(load1(a.keys, at) + q);
    const float d = load1(a.dy, s * a.e.batch + b) * v * (1 - t * t);
    block += d;
    if (a.dkeys.data) store1(a.dkeys, at, a.keys_sum.data ? load1(a.keys_sum, at) + d : d);
    if ((s + 1) % kSumRows == 0 || s + 1 == a.e.steps) {
      dq = a.e.steps > kSumRows ? dq + block : block;
      block = 0;
    }
  }
  if (a.dquery.data) store1(a.dquery, i, dq);
}
void run_mlp_score_replay_grad(const KernelArgs& a) {
  const ScoreGrad grad = score_grad(a);
  const int64_t rows = grad.e.steps * grad.e.batch, per = rows_per_partial(rows);
  const int64_t chunks = blocks_of(rows, per);
  float* partial = reinterpret_cast<float*>(a.workspace);
  if (a.out[2]) {
    launch(score_replay_dv_kernel, {blocks_of(grad.e.width, kColumnThreads) * chunks},
           kColumnThreads, a, partial, grad, per);
  }
  if (a.out[0] || a.out[1]) {
    launch(score_replay_grad_kernel, {blocks_of(grad.e.batch * grad.e.width, kColumnThreads)},
           kColumnThreads, a, grad);
  }
  if (a.out[2]) finish_dv(a, partial, chunks);
}
Prepared prepare_mlp_score_replay_grad(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  const int64_t rows = in[1].shape[0] * in[1].shape[1];
  return {.workspace =
              blocks_of(rows, rows_per_partial(rows)) * in[3].shape[0] * int64_t(sizeof(float))};
}

}  // namespace

const Backend mlp_score_cuda{.run = run_mlp_score};
const Backend mlp_score_grad_cuda{.run = run_mlp_score_grad, .prepare = prepare_mlp_score_grad};
const Backend mlp_score_replay_grad_cuda{.run = run_mlp_score_replay_grad,
                                         .prepare = prepare_mlp_score_replay_grad};

}  // namespace pal
