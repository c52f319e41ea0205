// softmax over the last axis: a warp has a row, and sums in the order of the CPU's kernel.
#include "ops/kernels/cuda_rows.h"
#include "ops/kernels/math.h"
#include "ops/kernels/operands.h"
#include "ops/losses/softmax.h"

namespace pal {
namespace {

struct RowLimits {
  const int32_t* lengths;  // null: all
  int64_t per_length;      // rows that share a length
  int64_t queries;         // causal where positive: row r sees r % queries + 1
};
__device__ int64_t limit_of(const RowLimits& limits, int64_t row, int64_t width) {
  int64_t limit = width;
  if (limits.lengths) {
    limit = limits.lengths[row / limits.per_length];
    limit = limit < 0 ? 0 : limit > width ? width : limit;
  }
  if (limits.queries > 0) {
    const int64_t causal = row % limits.queries + 1;
    limit = causal < limit ? causal : limit;
  }
  return limit;
}

template <class T>
__global__ void softmax_kernel(T* y, const T* x, int64_t rows, int64_t width, RowLimits limits) {
  const int64_t row = row_of_warp();
  if (row >= rows) return;
  const int64_t limit = limit_of(limits, row, width);
  const T* from = x + row * width;
  T* to = y + row * width;
  const float most = warp_row_max(from, limit);
  const float total = warp_row_sum(limit, [&](int64_t j) { return exp(load(from, j) - most); });
  const T* const rows_in[] = {from};
  warp_map_row(to, rows_in, width, is_wide(x, width) && is_wide(y, width),
               [&]<int n>(int64_t j, float(&v)[1][n]) {
#pragma unroll
                 for (int k = 0; k < n; ++k) {
                   v[0][k] = j + k < limit ? exp(v[0][k] - most) / total : 0.0f;
                 }
               });
}
void run_softmax(const KernelArgs& a) {
  const Shape& shape = a.in_spec[0].shape;
  const int64_t width = shape.back(), rows = row_count(shape);
  const int32_t* lengths = input_if_present<int32_t>(a, 1);
  const bool causal = a.attrs.as<SoftmaxAttrs>().causal;
  const RowLimits limits{lengths, lengths ? rows / a.in_spec[1].shape[0] : 1,
                         causal ? shape[shape.rank() - 2] : 0};
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(softmax_kernel<T>, {blocks_of(rows, kRowsPerBlock)}, a, a.output<T>(0), a.input<T>(0),
           rows, width, limits);
  });
}

template <class T>
__global__ void softmax_grad_kernel(T* dx, const T* y, const T* dy, int64_t rows, int64_t width) {
  const int64_t row = row_of_warp();
  if (row >= rows) return;
  const int64_t base = row * width;
  const float dot =
      warp_row_sum(width, [&](int64_t j) { return load(y, base + j) * load(dy, base + j); });
  const T* const rows_in[] = {y + base, dy + base};
  const bool wide = is_wide(dx, width) && is_wide(y, width) && is_wide(dy, width);
  warp_map_row(dx + base, rows_in, width, wide, [&]<int n>(int64_t, float(&v)[2][n]) {
#pragma unroll
    for (int k = 0; k < n; ++k) v[0][k] = v[0][k] * (v[1][k] - dot);
  });
}
void run_softmax_grad(const KernelArgs& a) {
  const int64_t width = a.in_spec[0].shape.back(), rows = row_count(a.in_spec[0].shape);
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(softmax_grad_kernel<T>, {blocks_of(rows, kRowsPerBlock)}, a, a.output<T>(0),
           a.input<T>(0), a.input<T>(1), rows, width);
  });
}

}  // namespace

const Backend softmax_cuda{.run = run_softmax};
const Backend softmax_grad_cuda{.run = run_softmax_grad};

}  // namespace pal
