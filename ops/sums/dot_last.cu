// The product with a vector along the last axis, and its gradients, in the order of the CPU's sums.
#include "ops/kernels/cuda_rows.h"
#include "ops/kernels/operands.h"
#include "ops/sums/dot_last.h"

namespace pal {
namespace {

template <class T>
__global__ void dot_last_kernel(T* y, const T* x, const float* v, int64_t rows, int64_t width) {
  const int64_t row = row_of_warp();
  if (row >= rows) return;
  const T* mine = x + row * width;
  const float sum = warp_row_sum(width, [&](int64_t j) { return load(mine, j) * v[j]; });
  if (lane_number() == 0) store(y, row, sum);
}
void run_dot_last(const KernelArgs& a) {
  const int64_t width = a.in_spec[1].shape[0], rows = row_count(a.in_spec[0].shape);
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(dot_last_kernel<T>, {blocks_of(rows, kRowsPerBlock)}, a, a.output<T>(0), a.input<T>(0),
           a.input(1), rows, width);
  });
}
// partial[chunk, c] = the chunk's sum of dy[row] x[row, c].
template <class T>
__global__ void dot_last_dv_kernel(float* partial, const T* dy, const T* x, int64_t rows,
                                   int64_t width, int64_t per_chunk) {
  const auto [chunk, c] = chunk_and_column(width);
  if (c >= width) return;
  const int64_t begin = chunk * per_chunk;
  const int64_t end = begin + per_chunk < rows ? begin + per_chunk : rows;
  float sum = 0;
#pragma unroll 4
  for (int64_t r = begin; r < end; ++r) sum += load(dy, r) * load(x, r * width + c);
  partial[chunk * width + c] = sum;
}
__global__ void dot_last_dx_kernel(Stored dx, Stored dy, Stored v, int64_t rows, int64_t width) {
  const auto [row, j, at, n] = row_group(rows, width);
  if (n == 0) return;
  const float d = load1(dy, row);
  float w[kGroup];
  load8(v, j, n, w);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) w[k] = d * w[k];
  store8(dx, at, n, w);
}
// dy (..), x (.., A), v (A) | sum (A) -> dx, dv; dx may lie over x, so it comes after what reads x.
void run_dot_last_grad(const KernelArgs& a) {
  const int64_t width = a.in_spec[2].shape[0], rows = row_count(a.in_spec[1].shape);
  const int64_t per_chunk = rows_per_partial(rows), chunks = blocks_of(rows, per_chunk);
  float* partial = reinterpret_cast<float*>(a.workspace);
  by_float_type(a.in_spec[1].dtype, [&]<class T>(T) {
    if (!a.out[1]) return;
    launch(dot_last_dv_kernel<T>, {blocks_of(width, kColumnThreads) * chunks}, kColumnThreads, a,
           partial, a.input<T>(0), a.input<T>(1), rows, width, per_chunk);
  });
  if (a.out[0]) {
    launch(dot_last_dx_kernel, grid_of_groups(rows * groups_of(width)), a,
           stored(a.out[0], a.out_spec[0], width), stored(a.in[0], a.in_spec[0]),
           stored(a.in[2], a.in_spec[2], width), rows, width);
  }
  if (a.out[1]) {
    sum_partials(a, stored(a.out[1], a.out_spec[1]), partial, chunks, width, width,
                 stored(input_if_present(a, 3), a.out_spec[1]));
  }
}
Prepared prepare_dot_last_grad(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  const int64_t rows = row_count(in[1].shape);
  return {.workspace =
              blocks_of(rows, rows_per_partial(rows)) * in[2].shape[0] * int64_t(sizeof(float))};
}

}  // namespace

const Backend dot_last_cuda{.run = run_dot_last};
const Backend dot_last_grad_cuda{.run = run_dot_last_grad, .prepare = prepare_dot_last_grad};

}  // namespace pal
