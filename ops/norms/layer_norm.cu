// Layer normalisation: a warp has a row; the parameters' gradients go through the CPU's chunks
// of rows, a block each where its columns fit its memory, else a thread a column.
#include "ops/kernels/cuda_rows.h"
#include "ops/kernels/operands.h"
#include "ops/norms/layer_norm.h"

namespace pal {
namespace {

template <class T>
__global__ void layer_norm_kernel(T* y, float* mean_out, float* rstd_out, const T* x,
                                  const float* gamma, const float* beta, int64_t rows,
                                  int64_t width, float eps) {
  const int64_t row = row_of_warp();
  if (row >= rows) return;
  const T* from = x + row * width;
  const float mean = warp_row_sum(width, [&](int64_t j) { return load(from, j); }) / float(width);
  const float squares = warp_row_sum(
      width, [&](int64_t j) { return (load(from, j) - mean) * (load(from, j) - mean); });
  const float rstd = 1 / sqrtf(squares / float(width) + eps);
  if (lane_number() == 0) {
    if (mean_out) mean_out[row] = mean;
    if (rstd_out) rstd_out[row] = rstd;
  }
  if (!y) return;
  for (int64_t j = lane_number(); j < width; j += kWarp) {
    store(y, row * width + j, (load(from, j) - mean) * rstd * gamma[j] + beta[j]);
  }
}
void run_layer_norm(const KernelArgs& a) {
  const int64_t width = a.in_spec[0].shape.back(), rows = row_count(a.in_spec[0].shape);
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(layer_norm_kernel<T>, {blocks_of(rows, kRowsPerBlock)}, a, a.output<T>(0), a.output(1),
           a.output(2), a.input<T>(0), a.input(1), a.input(2), rows, width,
           a.attrs.as<LayerNormAttrs>().eps);
  });
}

// partial[chunk] = {dgamma (C), dbeta (C)} of the chunk's rows.
template <class T>
__global__ void layer_norm_parameters_kernel(float* partial, const T* dy, const T* x,
                                             const float* means, const float* rstds, int64_t rows,
                                             int64_t width, int64_t per_chunk) {
  const auto [chunk, c] = chunk_and_column(width);
  if (c >= width) return;
  const int64_t begin = chunk * per_chunk;
  const int64_t end = begin + per_chunk < rows ? begin + per_chunk : rows;
  float dgamma = 0, dbeta = 0;
#pragma unroll 4
  for (int64_t r = begin; r < end; ++r) {
    const float d = load(dy, r * width + c);
    dgamma += d * ((load(x, r * width + c) - means[r]) * rstds[r]);
    dbeta += d;
  }
  float* mine = partial + chunk * 2 * width;
  mine[c] = dgamma, mine[width + c] = dbeta;
}

// dx[i] = v, or added[i] and what v is where it is stored.
template <class T> __device__ void store_sum(T* dx, int64_t i, float v, const T* added) {
  store(dx, i, added ? load(added, i) + as_stored<T>(v) : v);
}

template <class T>
__global__ void layer_norm_grad_kernel(T* dx, const T* dy, const T* x, const float* gamma,
                                       const float* means, const float* rstds, int64_t rows,
                                       int64_t width, const T* added) {
  const int64_t row = row_of_warp();
  if (row >= rows) return;
  const int64_t base = row * width;
  const float mean = means[row], rstd = rstds[row];
  const float of_g = warp_row_sum(width, [&](int64_t j) { return gamma[j] * load(dy, base + j); });
  const float of_gn = warp_row_sum(width, [&](int64_t j) {
    return gamma[j] * load(dy, base + j) * ((load(x, base + j) - mean) * rstd);
  });
  const float mean_g = of_g / float(width), mean_gn = of_gn / float(width);
  for (int64_t j = lane_number(); j < width; j += kWarp) {
    const float n = (load(x, base + j) - mean) * rstd;
    store_sum(dx, base + j, rstd * (gamma[j] * load(dy, base + j) - mean_g - n * mean_gn), added);
  }
}

// Both for a chunk of rows by a block, of rows that have at most so many columns: each row is
// brought once. The columns' sums so far lie in shared memory.
constexpr int64_t kSharedColumns = 4096;
template <class T>
__global__ void layer_norm_chunk_kernel(T* dx, float* partial, const T* dy, const T* x,
                                        const float* gamma, const float* means, const float* rstds,
                                        int64_t rows, int64_t width, int64_t per_chunk,
                                        const T* added) {
  float* dgamma = shared_memory<float>();
  float* dbeta = dgamma + width;
  for (int64_t c = threadIdx.x; c < 2 * width; c += blockDim.x) dgamma[c] = 0;
  __syncthreads();
  const int64_t begin = blockIdx.x * per_chunk;
  const int64_t end = begin + per_chunk < rows ? begin + per_chunk : rows;
  for (int64_t first = begin; first < end; first += kRowsPerBlock) {
    const int64_t row = first + warp_number(), base = row * width;
    const float mean = row < end ? means[row] : 0, rstd = row < end ? rstds[row] : 0;
    float of_g = 0, of_gn = 0;
    if (row < end) {
      of_g = warp_row_sum(width, [&](int64_t j) { return gamma[j] * load(dy, base + j); });
      of_gn = warp_row_sum(width, [&](int64_t j) {
        return gamma[j] * load(dy, base + j) * ((load(x, base + j) - mean) * rstd);
      });
    }
    const int64_t behind = first + kRowsPerBlock < end ? first + kRowsPerBlock : end;
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
      float g = dgamma[c], b = dbeta[c];
      for (int64_t r = first; r < behind; ++r) {
        const float d = load(dy, r * width + c);
        g += d * ((load(x, r * width + c) - means[r]) * rstds[r]);
        b += d;
      }
      dgamma[c] = g, dbeta[c] = b;
    }
    __syncthreads();  // dx may lie over dy or x, which all have read by now
    if (row >= end) continue;
    const float mean_g = of_g / float(width), mean_gn = of_gn / float(width);
    for (int64_t j = lane_number(); j < width; j += kWarp) {
      const float n = (load(x, base + j) - mean) * rstd;
      store_sum(dx, base + j, rstd * (gamma[j] * load(dy, base + j) - mean_g - n * mean_gn), added);
    }
  }
  __syncthreads();
  float* mine = partial + blockIdx.x * 2 * width;
  for (int64_t c = threadIdx.x; c < 2 * width; c += blockDim.x) mine[c] = dgamma[c];
}

// dy, x, gamma, mean, rstd | sum of dgamma, sum of dbeta, a -> dx (+ a), dgamma, dbeta. dx may lie
// over dy or x: it is written after the parameters' gradients have read them.
void run_layer_norm_grad(const KernelArgs& a) {
  const int64_t width = a.in_spec[1].shape.back(), rows = row_count(a.in_spec[1].shape);
  const int64_t per_chunk = rows_per_partial(rows), chunks = blocks_of(rows, per_chunk);
  const bool parameters = a.out[1] || a.out[2];
  float* partial = reinterpret_cast<float*>(a.workspace);
  by_float_type(a.in_spec[1].dtype, [&]<class T>(T) {
    const T* added = input_if_present<T>(a, 7);
    if (parameters && a.out[0] && width <= kSharedColumns) {
      launch(layer_norm_chunk_kernel<T>, {chunks}, kThreads, size_t(2 * width) * sizeof(float),
             stream_of(a), a.output<T>(0), partial, a.input<T>(0), a.input<T>(1), a.input(2),
             a.input(3), a.input(4), rows, width, per_chunk, added);
      return;
    }
    if (parameters) {
      launch(layer_norm_parameters_kernel<T>, {blocks_of(width, kColumnThreads) * chunks},
             kColumnThreads, a, partial, a.input<T>(0), a.input<T>(1), a.input(3), a.input(4), rows,
             width, per_chunk);
    }
    if (!a.out[0]) return;
    launch(layer_norm_grad_kernel<T>, {blocks_of(rows, kRowsPerBlock)}, a, a.output<T>(0),
           a.input<T>(0), a.input<T>(1), a.input(2), a.input(3), a.input(4), rows, width, added);
  });
  if (!parameters) return;
  const auto sums = [&](size_t which) -> PartialSums {
    return {stored(a.out[1 + which], a.out_spec[1 + which]), partial + int64_t(which) * width,
            stored(input_if_present(a, 5 + which), a.out_spec[1 + which])};
  };
  sum_partials(a, sums(0), sums(1), chunks, width, 2 * width);
}
Prepared prepare_layer_norm_grad(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  const int64_t rows = row_count(in[1].shape);
  return {.workspace = blocks_of(rows, rows_per_partial(rows)) * 2 * in[2].shape[0] *
                       int64_t(sizeof(float))};
}

}  // namespace

const Backend layer_norm_cuda{.run = run_layer_norm};
const Backend layer_norm_grad_cuda{.run = run_layer_norm_grad, .prepare = prepare_layer_norm_grad};

}  // namespace pal
