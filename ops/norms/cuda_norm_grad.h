// The kernels of batch norm's and frame norm's gradients: dy, x, gamma, (lengths,) mean, rstd ->
// dx, dgamma, dbeta. Sums go as in ops/norms/cuda_norm.h.
#pragma once
#include "ops/elementwise/activations.h"
#include "ops/norms/cuda_norm.h"

namespace pal {

// What counts as an element's dy: `of(c)` takes dy and x of a channel's elements, `apply` those of
// eight elements, whose x are given less their mean.
struct PlainDy {
  struct Of {
    __device__ float operator()(float dy, float) const { return dy; }
  };
  __device__ Of of(int64_t) const { return {}; }
  __device__ void apply(const RowEight&, const float*, float*) const {}
};
// dy where y = max((x - mean) gamma rstd + beta, 0), rounded to its type, is inside of relu's
// interval; else 0.
struct RectifiedDy {
  Stored gamma, beta, mean, rstd;  // a number a channel
  DType type;
  PassInside inside{IntervalAttrs{}};

  struct Of {
    float mean, scale, beta;
    DType type;
    PassInside inside;
    __device__ float operator()(float dy, float x) const {
      return inside(dy, as_stored(type, Relu{}((x - mean) * scale + beta)));
    }
  };
  __device__ Of of(int64_t c) const {
    return {at(mean, c), at(gamma, c) * at(rstd, c), at(beta, c), type, inside};
  }
  __device__ void apply(const RowEight& e, const float* distance, float* dy) const {
    float scale[kGroup], v[kGroup];
    e.load_row(gamma, scale), e.load_row(rstd, v);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) scale[k] = scale[k] * v[k];
    e.load_row(beta, v);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      dy[k] = inside(dy[k], as_stored(type, Relu{}(distance[k] * scale[k] + v[k])));
    }
  }
  __device__ static float at(const Stored& row, int64_t c) {
    return static_cast<const float*>(row.data)[c];
  }
};

// partial[chunk] = {sum of dy, sum of dy (x - mean)}.
template <class T, class Valid, class Dy>
__global__ void batch_norm_grad_chunks_kernel(float* partial, float* count, const T* dy, const T* x,
                                              const float* mean, NormRows r, Valid valid,
                                              Dy counted) {
  const auto [chunk, c] = chunk_and_column(r.channels);
  if (c >= r.channels) return;
  const int64_t begin = chunk * r.per_chunk, end = chunk_end(r, begin);
  const float center = mean[c];
  const auto of = counted.of(c);
  float sum = 0, dot = 0;
  int64_t n = 0;
#pragma unroll 8
  for (int64_t i = begin; i < end; ++i) {
    if (!valid(i)) continue;
    const float here = load(x, i * r.channels + c), d = of(load(dy, i * r.channels + c), here);
    sum += d, dot += d * (here - center), ++n;
  }
  partial[chunk * 2 * r.channels + c] = sum, partial[(chunk * 2 + 1) * r.channels + c] = dot;
  if (c == 0 && !r.all) count[chunk] = float(n);
}

template <class T, class Valid, class Dy>
__global__ void norm_tile_sums_kernel(float* partial, float* count, const T* dy, const T* x,
                                      const float* mean, NormRows r, Valid valid, Dy counted,
                                      int64_t tile_columns) {
  const NormTilePlace tile(r, tile_columns);
  T *of_dy = shared_memory<T>(), *of_x = of_dy + tile.rows * tile.columns;
  uint8_t* counts = reinterpret_cast<uint8_t*>(of_x + tile.rows * tile.columns);
  bring_tile(of_dy, dy, r, tile), bring_tile(of_x, x, r, tile), bring_counts(counts, tile, valid);
  __syncthreads();
  const int c = 2 * int(threadIdx.x);
  if (c >= tile.columns) return;
  const float* centers = mean + tile.column + c;
  const float center[2] = {centers[0], centers[1]};
  const typename Dy::Of of[2] = {counted.of(tile.column + c), counted.of(tile.column + c + 1)};
  float sum[2] = {}, dot[2] = {};
  int n = 0;
#pragma unroll 8
  for (int i = 0; i < tile.rows; ++i) {
    const bool here = Valid::kAll || counts[i];
    float d[2], v[2];
    load_columns(of_dy + i * tile.columns + c, d), load_columns(of_x + i * tile.columns + c, v);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      d[k] = of[k](d[k], v[k]);
      sum[k] += here ? d[k] : 0, dot[k] += here ? d[k] * (v[k] - center[k]) : 0;
    }
    n += here;
  }
  float* own = partial + tile.chunk * 2 * r.channels + tile.column + c;
#pragma unroll
  for (int k = 0; k < 2; ++k) own[k] = sum[k], own[r.channels + k] = dot[k];
  if (tile.column + c == 0 && !r.all) count[tile.chunk] = float(n);
}

struct NormGrad {
  Stored dx, dy, x;
  Stored gamma, mean, rstd, mean_dy, slope;
  bool apart;  // RowEight's
};
template <class Valid, class Dy>
__global__ void batch_norm_grad_kernel(NormGrad a, NormRows r, Valid valid, Dy counted) {
  const RowEight e(r.rows, r.channels, a.apart);
  if (e.none()) return;
  float d[kGroup], x[kGroup], factor[kGroup], of[kGroup];
  e.load(a.dy, d), e.load(a.x, x);
  e.load_row(a.mean, of);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) x[k] = x[k] - of[k];
  counted.apply(e, x, d);
  e.load_row(a.slope, of);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) x[k] = x[k] * of[k];
  e.load_row(a.mean_dy, of);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) d[k] = d[k] - of[k] - x[k];
  e.load_row(a.gamma, factor), e.load_row(a.rstd, of);
  const bool first = valid(e.row[0]);
  const bool counts[2] = {first, e.row[1] == e.row[0] ? first : valid(e.row[1])};
#pragma unroll
  for (int k = 0; k < kGroup; ++k) d[k] = counts[k / 4] ? factor[k] * of[k] * d[k] : 0;
  e.store(a.dx, d);
}

// The sums of a gradient, which is of operands dy and x.
template <class Valid, class Dy = PlainDy>
void norm_gradient_sums(const KernelArgs& a, const NormRows& r, Valid valid, const float* mean,
                        const float* rstd, const NormGradientSums& to, Dy counted = {}) {
  const NormSpace s(a, r);
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    const int64_t tile = norm_tile_columns<T>(r, a.input<T>(0), a.input<T>(1));
    if (tile) {
      return launch(norm_tile_sums_kernel<T, Valid, Dy>, {blocks_of(r.channels, tile) * r.chunks},
                    kThreads, norm_tile_bytes<T>(r, tile, 2), stream_of(a), s.partial, s.count,
                    a.input<T>(0), a.input<T>(1), mean, r, valid, counted, tile);
    }
    launch(batch_norm_grad_chunks_kernel<T, Valid, Dy>,
           {blocks_of(r.channels, kColumnThreads) * r.chunks}, kColumnThreads, a, s.partial,
           s.count, a.input<T>(0), a.input<T>(1), mean, r, valid, counted);
  });
  finish_gradient_sums(a, r, to, rstd);
}
// dx, of operands dy, x, gamma.
template <class Valid, class Dy = PlainDy>
void norm_gradient_elements(const KernelArgs& a, const NormRows& r, Valid valid, const float* mean,
                            const float* rstd, const float* mean_dy, const float* slope,
                            Dy counted = {}) {
  const Stored dx = stored(a.out[0], a.out_spec[0], r.channels),
               dy = stored(a.in[0], a.in_spec[0], r.channels),
               x = stored(a.in[1], a.in_spec[1], r.channels);
  const NormGrad grad{.dx = dx,
                      .dy = dy,
                      .x = x,
                      .gamma = floats(a.input(2), r.channels),
                      .mean = floats(mean, r.channels),
                      .rstd = floats(rstd, r.channels),
                      .mean_dy = floats(mean_dy, r.channels),
                      .slope = floats(slope, r.channels),
                      .apart = row_fours_apart(r.channels, dx, dy, x)};
  launch(batch_norm_grad_kernel<Valid, Dy>, grid_of_groups(r.rows * groups_of(r.channels)), a, grad,
         r, valid, counted);
}

template <class Valid, class Dy = PlainDy>
void norm_gradient(const KernelArgs& a, const NormRows& r, Valid valid, const float* mean,
                   const float* rstd, Dy counted = {}) {
  const NormSpace s(a, r);
  norm_gradient_sums(a, r, valid, mean, rstd, {s.first, s.second, a.output(1), a.output(2)},
                     counted);
  if (a.out[0]) norm_gradient_elements(a, r, valid, mean, rstd, s.first, s.second, counted);
}

}  // namespace pal
