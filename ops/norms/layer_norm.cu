// Layer normalisation: a warp has a row; the parameters' gradients go through the CPU's chunks
// of rows, a block each where its columns fit its memory, else a thread a column.
#include <algorithm>
#include <initializer_list>

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
  const T* const rows_in[] = {from};
  warp_map_row(y + row * width, rows_in, width, is_wide(x, width) && is_wide(y, width),
               [&]<int n>(int64_t j, float(&v)[1][n]) {
                 float factor[n], shift[n];
                 load_parameter(gamma, j, factor), load_parameter(beta, j, shift);
#pragma unroll
                 for (int k = 0; k < n; ++k)
                   v[0][k] = (v[0][k] - mean) * rstd * factor[k] + shift[k];
               });
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

// What a row's dx is made of.
struct RowGradient {
  float mean, rstd, mean_g, mean_gn;
};
// dx of a row by a warp, or added and what dx is where it is stored. dx may lie over any of them.
template <class T>
__device__ void put_row_gradient(T* dx, const T* dy, const T* x, const float* gamma, const T* added,
                                 int64_t width, bool wide, const RowGradient& r) {
  // v: of dy, x, and what is added.
  const auto put = [&]<int rows, int n>(int64_t j, float(&v)[rows][n]) {
    float factor[n];
    load_parameter(gamma, j, factor);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const float normal = (v[1][k] - r.mean) * r.rstd;
      const float d = r.rstd * (factor[k] * v[0][k] - r.mean_g - normal * r.mean_gn);
      if constexpr (rows == 3)
        v[0][k] = v[2][k] + as_stored<T>(d);
      else
        v[0][k] = d;
    }
  };
  if (added) {
    const T* const three[] = {dy, x, added};
    warp_map_row(dx, three, width, wide, put);
  } else {
    const T* const two[] = {dy, x};
    warp_map_row(dx, two, width, wide, put);
  }
}
template <class T> __device__ void unpack8(const uint4& four, float* v) {
  unpack<T>(four.x, v), unpack<T>(four.y, v + 2);
  unpack<T>(four.z, v + 4), unpack<T>(four.w, v + 6);
}
template <class T>
__device__ bool all_wide(const T* dx, const T* dy, const T* x, const T* added, int64_t width) {
  return is_wide(dx, width) && is_wide(dy, width) && is_wide(x, width) &&
         (!added || is_wide(added, width));
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
  put_row_gradient(dx + base, dy + base, x + base, gamma, added ? added + base : nullptr, width,
                   all_wide(dx, dy, x, added, width),
                   {mean, rstd, of_g / float(width), of_gn / float(width)});
}

// The gradients of parameters of columns c and c + 1, of rows `first` to `behind`, onto those so
// far.
template <class T>
__device__ void add_two_columns(float* dgamma, float* dbeta, const T* dy, const T* x,
                                const float* means, const float* rstds, int64_t first,
                                int64_t behind, int64_t width, int64_t c) {
  float g[2] = {dgamma[c], dgamma[c + 1]}, b[2] = {dbeta[c], dbeta[c + 1]};
  for (int64_t r = first; r < behind; ++r) {
    float d[2], v[2];
    unpack<T>(*reinterpret_cast<const uint32_t*>(dy + r * width + c), d);
    unpack<T>(*reinterpret_cast<const uint32_t*>(x + r * width + c), v);
#pragma unroll
    for (int k = 0; k < 2; ++k) g[k] += d[k] * ((v[k] - means[r]) * rstds[r]), b[k] += d[k];
  }
  dgamma[c] = g[0], dgamma[c + 1] = g[1], dbeta[c] = b[0], dbeta[c + 1] = b[1];
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
  const bool wide = all_wide(dx, dy, x, added, width);
  const bool pairs = wide && width % (2 * blockDim.x) == 0;  // as many for each thread
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
    if (pairs) {
      if constexpr (sizeof(T) == 2) {
        for (int64_t c = 2 * int64_t(threadIdx.x); c < width; c += 2 * blockDim.x) {
          add_two_columns(dgamma, dbeta, dy, x, means, rstds, first, behind, width, c);
        }
      }
    } else {
      for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
        float g = dgamma[c], b = dbeta[c];
        for (int64_t r = first; r < behind; ++r) {
          const float d = load(dy, r * width + c);
          g += d * ((load(x, r * width + c) - means[r]) * rstds[r]);
          b += d;
        }
        dgamma[c] = g, dbeta[c] = b;
      }
    }
    __syncthreads();  // dx may lie over dy or x, which all have read by now
    if (row >= end) continue;
    put_row_gradient(dx + base, dy + base, x + base, gamma, added ? added + base : nullptr, width,
                     wide, {mean, rstd, of_g / float(width), of_gn / float(width)});
  }
  __syncthreads();
  float* mine = partial + blockIdx.x * 2 * width;
  for (int64_t c = threadIdx.x; c < 2 * width; c += blockDim.x) mine[c] = dgamma[c];
}

// The same of rows of 16 bits that can be moved 16 bytes at a time, kBroughtColumns at most: a warp
// brings its row to shared memory and keeps it, and a thread has the sums of so many pairs of
// columns. dx may lie over the row: nobody else reads it.
constexpr int64_t kBroughtColumns = 1024;
constexpr int kPairs = int(kBroughtColumns / (2 * kThreads)), kWords = int(kBroughtColumns / 256);
template <class T>
__global__ void layer_norm_rows_kernel(T* dx, float* partial, const T* dy, const T* x,
                                       const float* gamma, const float* means, const float* rstds,
                                       int64_t rows, int64_t all_columns, int64_t per_chunk,
                                       const T* added) {
  const int width = int(all_columns), words = width / kGroup, warp = warp_number();
  T *of_dy = shared_memory<T>(), *of_x = of_dy + kRowsPerBlock * width;
  float* moments = reinterpret_cast<float*>(of_x + kRowsPerBlock * width);  // mean, rstd of a row
  T *own_dy = of_dy + warp * width, *own_x = of_x + warp * width;
  float dgamma[kPairs][2] = {}, dbeta[kPairs][2] = {};
  const int64_t begin = blockIdx.x * per_chunk;
  const int64_t end = begin + per_chunk < rows ? begin + per_chunk : rows;
  for (int64_t first = begin; first < end; first += kRowsPerBlock) {
    const int64_t row = first + warp, base = row * width;
    uint4 dy_words[kWords], x_words[kWords], added_words[kWords];
    const float mean = row < end ? means[row] : 0, rstd = row < end ? rstds[row] : 0;
    float of_g = 0, of_gn = 0;
    if (row < end) {
      const auto bring = [&](uint4(&to)[kWords], const T* from) {
#pragma unroll
        for (int i = 0; i < kWords; ++i) {
          const int word = lane_number() + i * kWarp;
          if (word < words) to[i] = reinterpret_cast<const uint4*>(from + base)[word];
        }
      };
      bring(dy_words, dy), bring(x_words, x);
      if (added) bring(added_words, added);
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        const int word = lane_number() + i * kWarp;
        if (word >= words) continue;
        reinterpret_cast<uint4*>(own_dy)[word] = dy_words[i];
        reinterpret_cast<uint4*>(own_x)[word] = x_words[i];
      }
      if (lane_number() == 0) moments[2 * warp] = mean, moments[2 * warp + 1] = rstd;
    }
    __syncthreads();
    if (row < end) {
#pragma unroll 8
      for (int j = lane_number(); j < width; j += kWarp) {
        const float g = gamma[j] * load(own_dy, j);
        of_g += g, of_gn += g * ((load(own_x, j) - mean) * rstd);
      }
      of_g = warp_sum(of_g) / float(width), of_gn = warp_sum(of_gn) / float(width);
    }
    const int n = end - first < kRowsPerBlock ? int(end - first) : kRowsPerBlock;
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      const int c = 2 * (int(threadIdx.x) + p * kThreads);
      if (c >= width) continue;
#pragma unroll
      for (int r = 0; r < kRowsPerBlock; ++r) {
        if (r >= n) continue;
        float d[2], v[2];
        unpack<T>(*reinterpret_cast<const uint32_t*>(of_dy + r * width + c), d);
        unpack<T>(*reinterpret_cast<const uint32_t*>(of_x + r * width + c), v);
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          dgamma[p][k] += d[k] * ((v[k] - moments[2 * r]) * moments[2 * r + 1]);
          dbeta[p][k] += d[k];
        }
      }
    }
    if (row < end) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        const int word = lane_number() + i * kWarp, j = word * kGroup;
        if (word >= words) continue;
        float d[kGroup], v[kGroup], factor[kGroup];
        unpack8<T>(dy_words[i], d), unpack8<T>(x_words[i], v), load_parameter(gamma, j, factor);
#pragma unroll
        for (int k = 0; k < kGroup; ++k) {
          const float normal = (v[k] - mean) * rstd;
          d[k] = rstd * (factor[k] * d[k] - of_g - normal * of_gn);
        }
        if (added) {
          unpack8<T>(added_words[i], v);
#pragma unroll
          for (int k = 0; k < kGroup; ++k) d[k] = v[k] + as_stored<T>(d[k]);
        }
        store8(whole_groups(dx + base), j, kGroup, d);
      }
    }
    __syncthreads();  // the next rows come where these are
  }
  float* mine = partial + blockIdx.x * 2 * width;
#pragma unroll
  for (int p = 0; p < kPairs; ++p) {
    const int c = 2 * (int(threadIdx.x) + p * kThreads);
    if (c >= width) continue;
#pragma unroll
    for (int k = 0; k < 2; ++k) mine[c + k] = dgamma[p][k], mine[width + c + k] = dbeta[p][k];
  }
}
// Whether rows are such as that kernel takes.
template <class T> bool can_be_brought(int64_t width, std::initializer_list<const T*> all) {
  if (sizeof(T) != 2 || width % kGroup || width > kBroughtColumns) return false;
  return std::ranges::all_of(all,
                             [](const T* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; });
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
    if constexpr (sizeof(T) == 2) {
      if (parameters && a.out[0] &&
          can_be_brought<T>(width, {a.output<T>(0), a.input<T>(0), a.input<T>(1), added})) {
        const size_t shared = size_t(kRowsPerBlock) * (size_t(width) * 2 * sizeof(T) + 8);
        launch(layer_norm_rows_kernel<T>, {chunks}, kThreads, shared, stream_of(a), a.output<T>(0),
               partial, a.input<T>(0), a.input<T>(1), a.input(2), a.input(3), a.input(4), rows,
               width, per_chunk, added);
        return;
      }
    }
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
