// Bahdanau's score with its gradients. Sums run in the CPU's order, so that the bits are its own
// (but for wide scores); where a sum goes down the positions, a thread has columns of its own.
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

// Positions of the sentence that a thread has on their way at once.
constexpr int kScoreSteps = 4;

template <class T> struct TypedScoreGrad {
  const T *dy, *keys, *query;
  const float* v;
  const T* keys_sum;
  T *dkeys, *dquery;
  float* partial;  // dv's sums, one of each score_rows
  ScoreExtents e;
};

// A warp has some columns of one b, and goes through its positions; a block those of score_rows
// neighbours, whose dv it adds up.
template <int N, class T>
__global__ void __launch_bounds__(kThreads, 2) score_grad_kernel(TypedScoreGrad<T> a) {
  constexpr int kColumns = kWarp * N;
  float* sums = shared_memory<float>();
  const int64_t batch = a.e.batch, width = a.e.width, steps = a.e.steps;
  const int rows = int(blockDim.x) / kWarp;
  const unsigned across = unsigned((width + kColumns - 1) / kColumns);
  const unsigned chunk = blockIdx.x / across;
  const int64_t first_column = int64_t(blockIdx.x - chunk * across) * kColumns;
  const int64_t c = first_column + lane_number() * N;
  const int64_t b = int64_t(chunk) * rows + warp_number();
  const bool exists = b < batch && c < width;
  const int64_t i = b * width + c, step_size = batch * width;
  // Where dkeys lies over the sum, what is not added to stays.
  const bool copies = a.dkeys && a.dkeys != a.keys_sum;
  float q[N] = {}, v[N] = {}, dq[N] = {}, dv[N] = {};
  if (exists) load_columns_at<N>(a.query + i, q), load_columns_at<N>(a.v + c, v);
  for (int64_t first = 0; first < steps; first += kWarp) {
    const int64_t step = first + lane_number();
    const float dy_of_lane = b < batch && step < steps ? load(a.dy, step * batch + b) : 0;
    const int count = steps - first < kWarp ? int(steps - first) : kWarp;
    for (int s = 0; s < count; s += kScoreSteps) {
      float dy[kScoreSteps], key[kScoreSteps][N], dk[kScoreSteps][N];
#pragma unroll
      for (int k = 0; k < kScoreSteps; ++k) dy[k] = __shfl_sync(kAllLanes, dy_of_lane, s + k);
      if (!exists) continue;
      const int64_t at = (first + s) * step_size + i;
#pragma unroll
      for (int k = 0; k < kScoreSteps; ++k) {  // where dy is zero, anything
        load_columns_at<N>(a.keys + (dy[k] != 0 ? at + k * step_size : i), key[k]);
      }
      if (a.keys_sum) {
#pragma unroll
        for (int k = 0; k < kScoreSteps; ++k) {
          const bool read = s + k < count && (dy[k] != 0 || copies);
          load_columns_at<N>(a.keys_sum + (read ? at + k * step_size : i), dk[k]);
        }
      } else {
#pragma unroll
        for (int k = 0; k < kScoreSteps; ++k) {
#pragma unroll
          for (int j = 0; j < N; ++j) dk[k][j] = 0;
        }
      }
#pragma unroll
      for (int k = 0; k < kScoreSteps; ++k) {
        if (dy[k] != 0) {
#pragma unroll
          for (int j = 0; j < N; ++j) {
            const float t = tanh(key[k][j] + q[j]);
            const float d = dy[k] * v[j] * (1 - t * t);
            dk[k][j] = dk[k][j] + d;
            dq[j] += d;
            dv[j] += dy[k] * t;
          }
        }
        if (a.dkeys && s + k < count && (dy[k] != 0 || copies)) {
          store_columns_at<N>(a.dkeys + at + k * step_size, dk[k]);
        }
      }
    }
  }
  if (exists && a.dquery) store_columns_at<N>(a.dquery + i, dq);
  if (!a.partial) return;
#pragma unroll
  for (int j = 0; j < N; ++j) sums[warp_number() * kColumns + lane_number() * N + j] = dv[j];
  __syncthreads();
  for (int t = int(threadIdx.x); t < kColumns; t += int(blockDim.x)) {
    if (first_column + t >= width) continue;
    float sum = 0;
    for (int row = 0; row < rows; ++row) sum += sums[row * kColumns + t];
    a.partial[chunk * width + first_column + t] = sum;
  }
}

void finish_dv(const KernelArgs& a, const float* partial, int64_t chunks) {
  const int64_t width = a.in_spec[3].shape[0];
  sum_partials(a, stored(a.out[2], a.out_spec[2]), partial, chunks, width, width,
               stored(input_if_present(a, 5), a.out_spec[2]));
}
void run_mlp_score_grad(const KernelArgs& a) {
  const ScoreExtents e = extents_of(a.in_spec[1]);
  const int64_t rows = score_rows(e.batch), chunks = blocks_of(e.batch, rows);
  const void* keys_sum = a.out[0] ? input_if_present(a, 4) : nullptr;
  const bool aligned =
      are_columns_aligned(e.width, a.in[1], a.in[2], a.in[3], keys_sum, a.out[0], a.out[1]);
  float* partial = a.out[2] ? reinterpret_cast<float*>(a.workspace) : nullptr;
  by_float_type(a.in_spec[1].dtype, [&]<class T>(T) {
    const TypedScoreGrad<T> grad{.dy = a.input<T>(0),
                                 .keys = a.input<T>(1),
                                 .query = a.input<T>(2),
                                 .v = a.input(3),
                                 .keys_sum = static_cast<const T*>(keys_sum),
                                 .dkeys = a.output<T>(0),
                                 .dquery = a.output<T>(1),
                                 .partial = partial,
                                 .e = e};
    with_columns<1, 4>(aligned ? 4 : 1, [&](auto n) {
      launch(score_grad_kernel<n(), T>, {warps_across<n()>(e.width) * chunks}, int(rows) * kWarp,
             size_t(rows * kWarp * n()) * sizeof(float), stream_of(a), grad);
    });
  });
  if (partial) finish_dv(a, partial, chunks);
}
Prepared prepare_mlp_score_grad(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  const int64_t batch = in[2].shape[0];
  return {.workspace =
              blocks_of(batch, score_rows(batch)) * in[3].shape[0] * int64_t(sizeof(float))};
}

// The same from mlp_score_unfused's nodes, with their sums' order
// (ops/attention/attention_score_replay.cc): dv in chunks of rows [s,b], dq in runs and
// chunks of steps. f32 only.
struct ScoreGrad {
  Stored dy, keys, query, v, keys_sum, dkeys, dquery;
  ScoreExtents e;
};
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
  float run = 0, chunk = 0, dq = 0;
  for (int64_t s = 0; s < a.e.steps; ++s) {
    const int64_t at = s * a.e.batch * a.e.width + i;
    const float t = tanh(load1(a.keys, at) + q);
    const float d = load1(a.dy, s * a.e.batch + b) * v * (1 - t * t);
    run += d;
    if (a.dkeys.data) store1(a.dkeys, at, a.keys_sum.data ? load1(a.keys_sum, at) + d : d);
    const bool last = s + 1 == a.e.steps;
    if ((s + 1) % kSumRun == 0 || last) chunk += run, run = 0;
    if ((s + 1) % kSumRows == 0 || last) dq += chunk, chunk = 0;
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
