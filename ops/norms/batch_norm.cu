// batch_norm over all rows of channels, and frame_norm over those of valid frames, through the
// CPU's chunks of rows: a thread sums a column of a chunk, a block adds up the chunks of a channel
// in f64 and in order, and a third kernel goes through the elements. x may be written over: that
// comes last.
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/kernels/cuda.h"
#include "ops/kernels/cuda_rows.h"
#include "ops/kernels/operands.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/frame_norm.h"

namespace pal {
namespace {

constexpr int kChunkThreads = 128;  // of a block that adds up a channel's chunks

struct Rows {
  int64_t rows, channels, per_chunk, chunks;
};
__device__ int64_t chunk_end(const Rows& r, int64_t begin) {
  return begin + r.per_chunk < r.rows ? begin + r.per_chunk : r.rows;
}

// Which rows count.
struct AllRows {
  __device__ bool operator()(int64_t) const { return true; }
};
struct ValidRows {
  FrameRows frames;
  __device__ bool operator()(int64_t row) const {
    const int64_t frame = divide(row, frames.rows), outer = divide(frame, frames.inner);
    return frames.valid(outer, frame - outer * frames.inner);
  }
};

// Workspace: three sums of a chunk and channel, the valid rows of every chunk, and two numbers per
// channel.
struct Space {
  float *partial, *count, *first, *second;
  Space(const KernelArgs& a, const Rows& r)
      : partial(reinterpret_cast<float*>(a.workspace)),
        count(partial + 3 * r.chunks * r.channels),
        first(count + r.chunks),
        second(first + r.channels) {}
};
Prepared prepare(const Rows& r) {
  return {.workspace = ((3 * r.chunks + 2) * r.channels + r.chunks) * int64_t(sizeof(float))};
}

// partial[chunk] = {x of its first valid row, the sum of x less that, the sum of squared distances
// from its mean}.
template <class T, class Valid>
__global__ void batch_norm_chunks_kernel(float* partial, float* count, const T* x, Rows r,
                                         Valid valid) {
  const int64_t c = thread_number(), chunk = blockIdx.y;
  if (c >= r.channels) return;
  const int64_t begin = chunk * r.per_chunk, end = chunk_end(r, begin);
  float first = 0, sum = 0, m2 = 0;
  int64_t n = 0;
#pragma unroll 8
  for (int64_t i = begin; i < end; ++i) {
    if (!valid(i)) continue;
    const float v = load(x, i * r.channels + c);
    if (n++ == 0) first = v;
    sum += v - first;
  }
  const float mean = n ? sum * (1.0f / float(n)) : 0;
#pragma unroll 8
  for (int64_t i = begin; i < end; ++i) {
    if (!valid(i)) continue;
    const float distance = load(x, i * r.channels + c) - first - mean;
    m2 += distance * distance;
  }
  float* own = partial + chunk * 3 * r.channels + c;
  own[0] = first, own[r.channels] = sum, own[2 * r.channels] = m2;
  if (c == 0) count[chunk] = float(n);
}

// sum_in_order, for all threads of the block.
template <class F> __device__ double sum_for_all(int64_t count, double* shared, F f) {
  const double sum = sum_in_order(count, shared, f);
  if (threadIdx.x == 0) shared[0] = sum;
  __syncthreads();
  const double all = shared[0];
  __syncthreads();
  return all;
}
// Valid rows, or 1 where there is none.
__device__ double rows_counted(const float* count, const Rows& r, double* shared) {
  const double rows = sum_for_all(r.chunks, shared, [&](int64_t k) { return double(count[k]); });
  return rows > 1 ? rows : 1;
}

// A block a channel: its statistics, and, where `mean` is not null, the factor of (x - mean).
__global__ void batch_norm_moments_kernel(float* mean, float* scale, float* mean_out,
                                          float* rstd_out, float* variance_out,
                                          const float* partial, const float* count,
                                          const float* gamma, Rows r, double eps) {
  double* shared = shared_memory<double>();
  const int64_t c = blockIdx.x;
  const double rows = rows_counted(count, r, shared);
  auto own = [&](int64_t chunk) {
    const float* p = partial + chunk * 3 * r.channels + c;
    return double(count[chunk]) * double(p[0]) + double(p[r.channels]);
  };
  const double center = sum_for_all(r.chunks, shared, own) / rows;
  const double m2 = sum_in_order(r.chunks, shared, [&](int64_t chunk) {
    const double n = double(count[chunk]);
    if (n == 0) return 0.0;
    const double distance = own(chunk) / n - center;
    return double(partial[(chunk * 3 + 2) * r.channels + c]) + n * distance * distance;
  });
  if (threadIdx.x != 0) return;
  const float rstd = float(1 / sqrt(m2 / rows + eps));
  if (mean) mean[c] = float(center), scale[c] = gamma[c] * rstd;
  if (mean_out) mean_out[c] = float(center);
  if (rstd_out) rstd_out[c] = rstd;
  if (variance_out) variance_out[c] = float(m2 / (rows > 2 ? rows - 1 : 1));
}

// y = (x - mean) factor(c) + beta, 0 in rows that do not count; eight elements a thread. With relu:
// max(y (+ residual), 0).
struct Finish {
  Stored residual{};
  bool relu = false;
};
template <class Valid, class F>
__global__ void normalize_kernel(Stored y, Stored x, const float* mean, const float* beta, Rows r,
                                 Valid valid, F factor, Finish finish) {
  const int64_t g = thread_number(), per_row = (r.channels + kGroup - 1) / kGroup;
  if (g >= r.rows * per_row) return;
  const int64_t row = divide(g, per_row), c = (g - row * per_row) * kGroup;
  const int64_t at = row * r.channels + c;
  const int n = group_size(c, r.channels);
  const bool counts = valid(row);
  float v[kGroup];
  load8(x, at, n, v);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    if (k < n) v[k] = counts ? (v[k] - mean[c + k]) * factor(c + k) + beta[c + k] : 0;
  }
  if (finish.residual.data) {
    float other[kGroup];
    load8(finish.residual, at, n, other);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) v[k] = Add{}(as_stored(y.type, v[k]), other[k]);
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
template <class Valid, class F>
void normalize(const KernelArgs& a, const Rows& r, Valid valid, const float* mean,
               const float* beta, F factor, Finish finish = {}) {
  launch(normalize_kernel<Valid, F>, grid_of_groups(r.rows * groups_of(r.channels)), kThreads, 0,
         stream_of(a), stored(a.out[0], a.out_spec[0], r.channels),
         stored(a.in[0], a.in_spec[0], r.channels), mean, beta, r, valid, factor, finish);
}

// `mean`, `scale`: what the elements need, or null.
template <class Valid>
void moments(const KernelArgs& a, const Rows& r, Valid valid, float eps, float* mean, float* scale,
             const float* gamma, float* mean_out, float* rstd_out, float* variance_out) {
  const Space s(a, r);
  by_float_type(a.in_spec[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(batch_norm_chunks_kernel<T, Valid>, {blocks_of(r.channels, kColumnThreads), r.chunks},
           kColumnThreads, 0, stream_of(a), s.partial, s.count, a.input<T>(0), r, valid);
  });
  launch(batch_norm_moments_kernel, {r.channels}, kChunkThreads, kChunkThreads * sizeof(double),
         stream_of(a), mean, scale, mean_out, rstd_out, variance_out, s.partial, s.count, gamma, r,
         double(eps));
}

// x, gamma, beta, .. -> y, mean, rstd, variance
template <class Valid> void forward(const KernelArgs& a, const Rows& r, Valid valid, float eps) {
  const Space s(a, r);
  moments(a, r, valid, eps, s.first, s.second, a.input(1), a.output(1), a.output(2), a.output(3));
  if (a.out[0]) normalize(a, r, valid, s.first, a.input(2), Given{s.second});
}

// ---- the gradient: dy, x, gamma, (lengths,) mean, rstd -> dx, dgamma, dbeta ----

// partial[chunk] = {sum of dy, sum of dy (x - mean)}.
template <class T, class Valid>
__global__ void batch_norm_grad_chunks_kernel(float* partial, float* count, const T* dy, const T* x,
                                              const float* mean, Rows r, Valid valid) {
  const int64_t c = thread_number(), chunk = blockIdx.y;
  if (c >= r.channels) return;
  const int64_t begin = chunk * r.per_chunk, end = chunk_end(r, begin);
  const float center = mean[c];
  float sum = 0, dot = 0;
  int64_t n = 0;
#pragma unroll 8
  for (int64_t i = begin; i < end; ++i) {
    if (!valid(i)) continue;
    const float d = load(dy, i * r.channels + c);
    sum += d, dot += d * (load(x, i * r.channels + c) - center), ++n;
  }
  partial[chunk * 2 * r.channels + c] = sum, partial[(chunk * 2 + 1) * r.channels + c] = dot;
  if (c == 0) count[chunk] = float(n);
}

__global__ void batch_norm_grad_sums_kernel(float* mean_dy, float* slope, float* dgamma,
                                            float* dbeta, const float* partial, const float* count,
                                            const float* rstd, Rows r) {
  double* shared = shared_memory<double>();
  const int64_t c = blockIdx.x;
  const double rows = rows_counted(count, r, shared);
  const double sum = sum_in_order(
      r.chunks, shared, [&](int64_t chunk) { return double(partial[chunk * 2 * r.channels + c]); });
  const double products = sum_in_order(r.chunks, shared, [&](int64_t chunk) {
    return double(partial[(chunk * 2 + 1) * r.channels + c]);
  });
  if (threadIdx.x != 0) return;
  const double dot = products * double(rstd[c]);
  if (dbeta) dbeta[c] = float(sum);
  if (dgamma) dgamma[c] = float(dot);
  mean_dy[c] = float(sum / rows);
  slope[c] = float(dot * double(rstd[c]) / rows);
}

struct BatchNormGrad {
  Stored dx, dy, x;
  const float *gamma, *mean, *rstd, *mean_dy, *slope;
};
template <class Valid>
__global__ void batch_norm_grad_kernel(BatchNormGrad a, Rows r, Valid valid) {
  const int64_t g = thread_number(), per_row = (r.channels + kGroup - 1) / kGroup;
  if (g >= r.rows * per_row) return;
  const int64_t row = divide(g, per_row), c = (g - row * per_row) * kGroup;
  const int64_t at = row * r.channels + c;
  const int n = group_size(c, r.channels);
  const bool counts = valid(row);
  float d[kGroup], x[kGroup];
  load8(a.dy, at, n, d), load8(a.x, at, n, x);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    const int64_t i = c + k;
    if (k >= n) continue;
    d[k] = counts ? a.gamma[i] * a.rstd[i] * (d[k] - a.mean_dy[i] - (x[k] - a.mean[i]) * a.slope[i])
                  : 0;
  }
  store8(a.dx, at, n, d);
}

template <class Valid>
void gradient(const KernelArgs& a, const Rows& r, Valid valid, const float* mean,
              const float* rstd) {
  const Space s(a, r);
  by_float_type(a.in_spec[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(batch_norm_grad_chunks_kernel<T, Valid>,
           {blocks_of(r.channels, kColumnThreads), r.chunks}, kColumnThreads, 0, stream_of(a),
           s.partial, s.count, a.input<T>(0), a.input<T>(1), mean, r, valid);
  });
  launch(batch_norm_grad_sums_kernel, {r.channels}, kChunkThreads, kChunkThreads * sizeof(double),
         stream_of(a), s.first, s.second, a.output(1), a.output(2), s.partial, s.count, rstd, r);
  if (!a.out[0]) return;
  const BatchNormGrad grad{.dx = stored(a.out[0], a.out_spec[0], r.channels),
                           .dy = stored(a.in[0], a.in_spec[0], r.channels),
                           .x = stored(a.in[1], a.in_spec[1], r.channels),
                           .gamma = a.input(2),
                           .mean = mean,
                           .rstd = rstd,
                           .mean_dy = s.first,
                           .slope = s.second};
  launch(batch_norm_grad_kernel<Valid>, grid_of_groups(r.rows * groups_of(r.channels)), kThreads, 0,
         stream_of(a), grad, r, valid);
}

// ---- all rows ----

Rows rows_of(const TensorSpec& x) {
  const int64_t channels = x.shape.back(), rows = x.numel() / channels;
  const int64_t per_chunk = batch_norm_rows(channels);
  return {rows, channels, per_chunk, blocks_of(rows, per_chunk)};
}
void run(const KernelArgs& a) {
  forward(a, rows_of(a.in_spec[0]), AllRows{}, a.attrs.as<BatchNormAttrs>().eps);
}
void run_statistics(const KernelArgs& a) {
  moments(a, rows_of(a.in_spec[0]), AllRows{}, a.attrs.as<BatchNormAttrs>().eps, nullptr, nullptr,
          nullptr, a.output(0), a.output(1), a.output(2));
}
void run_apply(const KernelArgs& a) {
  if (!a.out[0]) return;
  const Rows r = rows_of(a.in_spec[0]);
  Finish finish{.relu = a.attrs.as<BatchNormApplyAttrs>().relu};
  if (const void* residual = input_if_present(a, 5)) {
    finish.residual = stored(residual, a.in_spec[5], r.channels);
  }
  normalize(a, r, AllRows{}, a.input(3), a.input(2), FromDeviation{a.input(1), a.input(4)}, finish);
}
void run_infer(const KernelArgs& a) {
  if (!a.out[0]) return;
  normalize(a, rows_of(a.in_spec[0]), AllRows{}, a.input(3), a.input(2),
            FromVariance{a.input(1), a.input(4), a.attrs.as<BatchNormAttrs>().eps});
}
void run_grad(const KernelArgs& a) {
  gradient(a, rows_of(a.in_spec[0]), AllRows{}, a.input(3), a.input(4));
}
Prepared prepare_rows(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  return prepare(rows_of(in[0]));
}

// ---- those of valid frames; lengths are operand 3 ----

Rows rows_of(const FrameRows& f) {
  return {f.frames * f.rows, f.channels, f.chunk() * f.rows, f.chunks()};
}
FrameRows frames_of(const KernelArgs& a) { return {a.in_spec[0], a.attrs, a.input<int32_t>(3)}; }
void run_frames(const KernelArgs& a) {
  const FrameRows f = frames_of(a);
  forward(a, rows_of(f), ValidRows{f}, a.attrs.as<FrameNormAttrs>().eps);
}
void run_frames_infer(const KernelArgs& a) {
  if (!a.out[0]) return;
  const FrameRows f = frames_of(a);
  normalize(a, rows_of(f), ValidRows{f}, a.input(4), a.input(2),
            FromVariance{a.input(1), a.input(5), a.attrs.as<FrameNormAttrs>().eps});
}
void run_frames_grad(const KernelArgs& a) {
  const FrameRows f = frames_of(a);
  gradient(a, rows_of(f), ValidRows{f}, a.input(4), a.input(5));
}
Prepared prepare_frames(const Device&, SpecSpan in, SpecSpan, const Attrs& attrs) {
  return prepare(rows_of(FrameRows(in[0], attrs, nullptr)));
}

}  // namespace

const Backend batch_norm_apply_cuda{.run = run_apply};
const Backend batch_norm_cuda{.run = run, .prepare = prepare_rows};
const Backend batch_norm_grad_cuda{.run = run_grad, .prepare = prepare_rows};
const Backend batch_norm_infer_cuda{.run = run_infer};
const Backend batch_norm_statistics_cuda{.run = run_statistics, .prepare = prepare_rows};
const Backend frame_norm_cuda{.run = run_frames, .prepare = prepare_frames};
const Backend frame_norm_grad_cuda{.run = run_frames_grad, .prepare = prepare_frames};
const Backend frame_norm_infer_cuda{.run = run_frames_infer};

}  // namespace pal
