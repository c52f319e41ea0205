// Batch normalisation through the CPU's chunks of rows (ops/batch_norm.cc): a thread sums a column
// of a chunk, a block adds up the chunks of a channel in f64 and in order, and a third kernel goes
// through the elements. x may be written over: that comes last.
#include "ops/activations.h"
#include "ops/add.h"
#include "ops/batch_norm.h"
#include "ops/cuda.h"
#include "ops/cuda_rows.h"
#include "ops/operands.h"

namespace pal {
namespace {

constexpr int kChunkThreads = 128;  // of a block that adds up a channel's chunks

struct Rows {
  int64_t rows, channels, per_chunk, chunks;
};
Rows rows_of(const TensorSpec& x) {
  const int64_t channels = x.shape.back(), rows = x.numel() / channels;
  const int64_t per_chunk = batch_norm_rows(channels);
  return {rows, channels, per_chunk, blocks_of(rows, per_chunk)};
}
__device__ int64_t chunk_end(const Rows& r, int64_t begin) {
  return begin + r.per_chunk < r.rows ? begin + r.per_chunk : r.rows;
}

// partial[chunk] = {sum of x - the chunk's first row, sum of squared distances from its mean}.
__global__ void batch_norm_chunks_kernel(float* partial, const float* x, Rows r) {
  const int64_t c = thread_number(), chunk = blockIdx.y;
  if (c >= r.channels) return;
  const int64_t begin = chunk * r.per_chunk, end = chunk_end(r, begin);
  const float first = x[begin * r.channels + c];
  float sum = 0, m2 = 0;
#pragma unroll 8
  for (int64_t i = begin; i < end; ++i) sum += x[i * r.channels + c] - first;
  const float mean = sum * (1.0f / float(end - begin));
#pragma unroll 8
  for (int64_t i = begin; i < end; ++i) {
    const float distance = x[i * r.channels + c] - first - mean;
    m2 += distance * distance;
  }
  partial[chunk * 2 * r.channels + c] = sum, partial[(chunk * 2 + 1) * r.channels + c] = m2;
}

// A block a channel: its statistics, and, where `mean` is not null, the factor of (x - mean).
__global__ void batch_norm_moments_kernel(float* mean, float* scale, float* mean_out,
                                          float* rstd_out, float* variance_out,
                                          const float* partial, const float* x, const float* gamma,
                                          Rows r, double eps) {
  double* shared = shared_memory<double>();
  const int64_t c = blockIdx.x;
  auto rows_in = [&](int64_t chunk) {
    return double(chunk_end(r, chunk * r.per_chunk) - chunk * r.per_chunk);
  };
  auto own = [&](int64_t chunk) {
    return rows_in(chunk) * double(x[chunk * r.per_chunk * r.channels + c]) +
           double(partial[chunk * 2 * r.channels + c]);
  };
  double center = sum_in_order(r.chunks, shared, own) / double(r.rows);
  if (threadIdx.x == 0) shared[0] = center;
  __syncthreads();
  center = shared[0];
  __syncthreads();
  const double m2 = sum_in_order(r.chunks, shared, [&](int64_t chunk) {
    const double n = rows_in(chunk), distance = own(chunk) / n - center;
    return double(partial[(chunk * 2 + 1) * r.channels + c]) + n * distance * distance;
  });
  if (threadIdx.x != 0) return;
  const float rstd = float(1 / sqrt(m2 / double(r.rows) + eps));
  if (mean) mean[c] = float(center), scale[c] = gamma[c] * rstd;
  if (mean_out) mean_out[c] = float(center);
  if (rstd_out) rstd_out[c] = rstd;
  if (variance_out) variance_out[c] = float(m2 / double(r.rows > 1 ? r.rows - 1 : 1));
}

// y = (x - mean) factor(c) + beta, eight elements a thread; with relu: max(y (+ residual), 0).
struct Finish {
  Stored residual{};
  bool relu = false;
};
template <class F>
__global__ void normalize_kernel(Stored y, Stored x, const float* mean, const float* beta, Rows r,
                                 F factor, Finish finish) {
  const int64_t g = thread_number(), per_row = (r.channels + kGroup - 1) / kGroup;
  if (g >= r.rows * per_row) return;
  const int64_t row = g / per_row, c = (g - row * per_row) * kGroup, at = row * r.channels + c;
  const int n = group_size(c, r.channels);
  float v[kGroup];
  load8(x, at, n, v);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    if (k < n) v[k] = (v[k] - mean[c + k]) * factor(c + k) + beta[c + k];
  }
  if (finish.residual.data) {
    float other[kGroup];
    load8(finish.residual, at, n, other);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) v[k] = Add{}(v[k], other[k]);
  }
  if (finish.relu) {
#pragma unroll
    for (int k = 0; k < kGroup; ++k) v[k] = Relu{}(v[k]);
  }
  store8(y, at, n, v);
}
struct Given {
  const float* scale;
  __device__ float operator()(int64_t c) const { return scale[c]; }
};
struct FromVariance {
  const float *gamma, *variance;
  float eps;
  __device__ float operator()(int64_t c) const { return gamma[c] / sqrtf(variance[c] + eps); }
};
struct FromDeviation {
  const float *gamma, *rstd;
  __device__ float operator()(int64_t c) const { return gamma[c] * rstd[c]; }
};
template <class F>
void normalize(const KernelArgs& a, const Rows& r, const float* mean, const float* beta, F factor,
               Finish finish = {}) {
  launch(normalize_kernel<F>, grid_of_groups(r.rows * groups_of(r.channels)), kThreads, 0,
         stream_of(a), stored(a.out[0], a.out_spec[0], r.channels),
         stored(a.in[0], a.in_spec[0], r.channels), mean, beta, r, factor, finish);
}

// `mean`, `scale`: what the elements need, or null.
void moments(const KernelArgs& a, const Rows& r, float* mean, float* scale, const float* gamma,
             float* mean_out, float* rstd_out, float* variance_out) {
  float* partial = reinterpret_cast<float*>(a.workspace);
  launch(batch_norm_chunks_kernel, {blocks_of(r.channels, kColumnThreads), r.chunks},
         kColumnThreads, 0, stream_of(a), partial, a.input(0), r);
  launch(batch_norm_moments_kernel, {r.channels}, kChunkThreads, kChunkThreads * sizeof(double),
         stream_of(a), mean, scale, mean_out, rstd_out, variance_out, partial, a.input(0), gamma, r,
         double(a.attrs.as<BatchNormAttrs>().eps));
}

void run(const KernelArgs& a) {
  const Rows r = rows_of(a.in_spec[0]);
  float* mean = reinterpret_cast<float*>(a.workspace) + r.chunks * 2 * r.channels;
  float* scale = mean + r.channels;
  moments(a, r, mean, scale, a.input(1), a.output(1), a.output(2), a.output(3));
  if (a.out[0]) normalize(a, r, mean, a.input(2), Given{scale});
}

void run_statistics(const KernelArgs& a) {
  moments(a, rows_of(a.in_spec[0]), nullptr, nullptr, nullptr, a.output(0), a.output(1),
          a.output(2));
}

void run_apply(const KernelArgs& a) {
  if (!a.out[0]) return;
  const Rows r = rows_of(a.in_spec[0]);
  Finish finish{.relu = a.attrs.as<BatchNormApplyAttrs>().relu};
  if (const void* residual = input_if_present(a, 5)) {
    finish.residual = stored(residual, a.in_spec[5], r.channels);
  }
  normalize(a, r, a.input(3), a.input(2), FromDeviation{a.input(1), a.input(4)}, finish);
}

void run_infer(const KernelArgs& a) {
  if (!a.out[0]) return;
  normalize(a, rows_of(a.in_spec[0]), a.input(3), a.input(2),
            FromVariance{a.input(1), a.input(4), a.attrs.as<BatchNormAttrs>().eps});
}

// ---- the gradient: dy, x, gamma, mean, rstd -> dx, dgamma, dbeta ----

// partial[chunk] = {sum of dy, sum of dy (x - mean)}.
__global__ void batch_norm_grad_chunks_kernel(float* partial, const float* dy, const float* x,
                                              const float* mean, Rows r) {
  const int64_t c = thread_number(), chunk = blockIdx.y;
  if (c >= r.channels) return;
  const int64_t begin = chunk * r.per_chunk, end = chunk_end(r, begin);
  const float center = mean[c];
  float sum = 0, dot = 0;
#pragma unroll 8
  for (int64_t i = begin; i < end; ++i) {
    const float d = dy[i * r.channels + c];
    sum += d, dot += d * (x[i * r.channels + c] - center);
  }
  partial[chunk * 2 * r.channels + c] = sum, partial[(chunk * 2 + 1) * r.channels + c] = dot;
}

__global__ void batch_norm_grad_sums_kernel(float* mean_dy, float* slope, float* dgamma,
                                            float* dbeta, const float* partial, const float* rstd,
                                            Rows r) {
  double* shared = shared_memory<double>();
  const int64_t c = blockIdx.x;
  const double sum = sum_in_order(
      r.chunks, shared, [&](int64_t chunk) { return double(partial[chunk * 2 * r.channels + c]); });
  const double products = sum_in_order(r.chunks, shared, [&](int64_t chunk) {
    return double(partial[(chunk * 2 + 1) * r.channels + c]);
  });
  if (threadIdx.x != 0) return;
  const double dot = products * double(rstd[c]);
  if (dbeta) dbeta[c] = float(sum);
  if (dgamma) dgamma[c] = float(dot);
  mean_dy[c] = float(sum / double(r.rows));
  slope[c] = float(dot * double(rstd[c]) / double(r.rows));
}

struct BatchNormGrad {
  Stored dx, dy, x;
  const float *gamma, *mean, *rstd, *mean_dy, *slope;
};
__global__ void batch_norm_grad_kernel(BatchNormGrad a, Rows r) {
  const int64_t g = thread_number(), per_row = (r.channels + kGroup - 1) / kGroup;
  if (g >= r.rows * per_row) return;
  const int64_t row = g / per_row, c = (g - row * per_row) * kGroup, at = row * r.channels + c;
  const int n = group_size(c, r.channels);
  float d[kGroup], x[kGroup];
  load8(a.dy, at, n, d), load8(a.x, at, n, x);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    const int64_t i = c + k;
    if (k >= n) continue;
    d[k] = a.gamma[i] * a.rstd[i] * (d[k] - a.mean_dy[i] - (x[k] - a.mean[i]) * a.slope[i]);
  }
  store8(a.dx, at, n, d);
}

void run_grad(const KernelArgs& a) {
  const Rows r = rows_of(a.in_spec[0]);
  float* partial = reinterpret_cast<float*>(a.workspace);
  float *mean_dy = partial + r.chunks * 2 * r.channels, *slope = mean_dy + r.channels;
  launch(batch_norm_grad_chunks_kernel, {blocks_of(r.channels, kColumnThreads), r.chunks},
         kColumnThreads, 0, stream_of(a), partial, a.input(0), a.input(1), a.input(3), r);
  launch(batch_norm_grad_sums_kernel, {r.channels}, kChunkThreads, kChunkThreads * sizeof(double),
         stream_of(a), mean_dy, slope, a.output(1), a.output(2), partial, a.input(4), r);
  if (!a.out[0]) return;
  const BatchNormGrad grad{.dx = stored(a.out[0], a.out_spec[0], r.channels),
                           .dy = stored(a.in[0], a.in_spec[0], r.channels),
                           .x = stored(a.in[1], a.in_spec[1], r.channels),
                           .gamma = a.input(2),
                           .mean = a.input(3),
                           .rstd = a.input(4),
                           .mean_dy = mean_dy,
                           .slope = slope};
  launch(batch_norm_grad_kernel, grid_of_groups(r.rows * groups_of(r.channels)), kThreads, 0,
         stream_of(a), grad, r);
}

// Two sums per chunk and channel, then two numbers per channel.
Prepared prepare(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  const Rows r = rows_of(in[0]);
  return {.workspace = (r.chunks + 1) * 2 * r.channels * int64_t(sizeof(float))};
}

}  // namespace

const Backend batch_norm_cuda{.run = run, .prepare = prepare};
const Backend batch_norm_apply_cuda{.run = run_apply};
const Backend batch_norm_grad_cuda{.run = run_grad, .prepare = prepare};
const Backend batch_norm_infer_cuda{.run = run_infer};
const Backend batch_norm_statistics_cuda{.run = run_statistics, .prepare = prepare};

}  // namespace pal
