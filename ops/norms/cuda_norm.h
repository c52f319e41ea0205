// What the kernels of batch_norm and frame_norm share. Sums go through the CPU's chunks of rows: a
// thread sums a column of a chunk, a block adds up the chunks of a channel in f64 and in order, and
// a third kernel goes through the elements. x may be written over: that comes last.
#pragma once
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/kernels/cuda_rows.h"

namespace pal {

// Rows of channels, and the chunks that sums go through.
struct NormRows {
  int64_t rows, channels, per_chunk, chunks;
  bool all = false;  // every row counts: nobody counts them
};
__device__ inline int64_t chunk_end(const NormRows& r, int64_t begin) {
  return begin + r.per_chunk < r.rows ? begin + r.per_chunk : r.rows;
}

// `Valid`, below, says which rows count.

// Per channel; null: not wanted. `mean` and `scale` = gamma rstd are what the elements need, `own`
// what a rank says of its rows: {mean, m2, rows}.
struct NormMoments {
  float *mean, *scale, *mean_out, *rstd_out, *variance_out;
  float* own = nullptr;
};
// From the chunks' sums in the workspace: a block adds up those of a channel, in f64 and in order.
void finish_moments(const KernelArgs& a, const NormRows& r, const NormMoments& to,
                    const float* gamma, float eps);
// The same of the gradient; null: not wanted. `own`: {sum of dy, sum of dy xhat, rows}.
struct NormGradientSums {
  float *mean_dy, *slope, *dgamma, *dbeta;
  float* own = nullptr;
};
void finish_gradient_sums(const KernelArgs& a, const NormRows& r, const NormGradientSums& to,
                          const float* rstd);

// Workspace: three sums of a chunk and channel, the valid rows of every chunk where they are
// counted, and two numbers per channel.
struct NormSpace {
  float *partial, *count, *first, *second;
  NormSpace(const KernelArgs& a, const NormRows& r)
      : partial(reinterpret_cast<float*>(a.workspace)),
        count(partial + 3 * r.chunks * r.channels),
        first(count + (r.all ? 0 : r.chunks)),
        second(first + r.channels) {}
};
inline Prepared prepare_norm(const NormRows& r) {
  const int64_t counts = r.all ? 0 : r.chunks;
  return {.workspace = ((3 * r.chunks + 2) * r.channels + counts) * int64_t(sizeof(float))};
}

// partial[chunk] = {x of its first valid row, the sum of x less that, the sum of squared distances
// from its mean}.
template <class T, class Valid>
__global__ void batch_norm_chunks_kernel(float* partial, float* count, const T* x, NormRows r,
                                         Valid valid) {
  const auto [chunk, c] = chunk_and_column(r.channels);
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
  if (c == 0 && !r.all) count[chunk] = float(n);
}

// y = (x - mean) factor(c) + beta, 0 in rows that do not count; eight elements a thread. With relu:
// max(y (+ residual), 0).
struct NormFinish {
  Stored residual{};
  bool relu = false;
};
template <class Valid, class F>
__global__ void normalize_kernel(Stored y, Stored x, const float* mean, const float* beta,
                                 NormRows r, Valid valid, F factor, NormFinish finish) {
  const auto [row, c, at, n] = row_group(r.rows, r.channels);
  if (n == 0) return;
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
struct GivenFactor {
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
void normalize_elements(const KernelArgs& a, const NormRows& r, Valid valid, const float* mean,
                        const float* beta, F factor, NormFinish finish = {}) {
  launch(normalize_kernel<Valid, F>, grid_of_groups(r.rows * groups_of(r.channels)), a,
         stored(a.out[0], a.out_spec[0], r.channels), stored(a.in[0], a.in_spec[0], r.channels),
         mean, beta, r, valid, factor, finish);
}

template <class Valid>
void norm_moments(const KernelArgs& a, const NormRows& r, Valid valid, float eps,
                  const NormMoments& to, const float* gamma = nullptr) {
  const NormSpace s(a, r);
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(batch_norm_chunks_kernel<T, Valid>, {blocks_of(r.channels, kColumnThreads) * r.chunks},
           kColumnThreads, a, s.partial, s.count, a.input<T>(0), r, valid);
  });
  finish_moments(a, r, to, gamma, eps);
}

// x, gamma, beta, .. -> y, mean, rstd, variance
template <class Valid>
void norm_forward(const KernelArgs& a, const NormRows& r, Valid valid, float eps) {
  const NormSpace s(a, r);
  norm_moments(a, r, valid, eps, {s.first, s.second, a.output(1), a.output(2), a.output(3)},
               a.input(1));
  if (a.out[0]) normalize_elements(a, r, valid, s.first, a.input(2), GivenFactor{s.second});
}

// ---- the gradient: dy, x, gamma, (lengths,) mean, rstd -> dx, dgamma, dbeta ----

// partial[chunk] = {sum of dy, sum of dy (x - mean)}.
template <class T, class Valid>
__global__ void batch_norm_grad_chunks_kernel(float* partial, float* count, const T* dy, const T* x,
                                              const float* mean, NormRows r, Valid valid) {
  const auto [chunk, c] = chunk_and_column(r.channels);
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
  if (c == 0 && !r.all) count[chunk] = float(n);
}

struct NormGrad {
  Stored dx, dy, x;
  const float *gamma, *mean, *rstd, *mean_dy, *slope;
};
template <class Valid> __global__ void batch_norm_grad_kernel(NormGrad a, NormRows r, Valid valid) {
  const auto [row, c, at, n] = row_group(r.rows, r.channels);
  if (n == 0) return;
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

// The sums of a gradient, which is of operands dy and x.
template <class Valid>
void norm_gradient_sums(const KernelArgs& a, const NormRows& r, Valid valid, const float* mean,
                        const float* rstd, const NormGradientSums& to) {
  const NormSpace s(a, r);
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(batch_norm_grad_chunks_kernel<T, Valid>,
           {blocks_of(r.channels, kColumnThreads) * r.chunks}, kColumnThreads, a, s.partial,
           s.count, a.input<T>(0), a.input<T>(1), mean, r, valid);
  });
  finish_gradient_sums(a, r, to, rstd);
}
// dx, of operands dy, x, gamma.
template <class Valid>
void norm_gradient_elements(const KernelArgs& a, const NormRows& r, Valid valid, const float* mean,
                            const float* rstd, const float* mean_dy, const float* slope) {
  const NormGrad grad{.dx = stored(a.out[0], a.out_spec[0], r.channels),
                      .dy = stored(a.in[0], a.in_spec[0], r.channels),
                      .x = stored(a.in[1], a.in_spec[1], r.channels),
                      .gamma = a.input(2),
                      .mean = mean,
                      .rstd = rstd,
                      .mean_dy = mean_dy,
                      .slope = slope};
  launch(batch_norm_grad_kernel<Valid>, grid_of_groups(r.rows * groups_of(r.channels)), a, grad, r,
         valid);
}

template <class Valid>
void norm_gradient(const KernelArgs& a, const NormRows& r, Valid valid, const float* mean,
                   const float* rstd) {
  const NormSpace s(a, r);
  norm_gradient_sums(a, r, valid, mean, rstd, {s.first, s.second, a.output(1), a.output(2)});
  if (a.out[0]) norm_gradient_elements(a, r, valid, mean, rstd, s.first, s.second);
}

}  // namespace pal
