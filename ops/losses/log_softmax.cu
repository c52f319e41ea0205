// log_softmax and argmax_rows: a warp has a row.
#include "ops/kernels/cuda_rows.h"
#include "ops/kernels/math.h"
#include "ops/losses/log_softmax.h"

namespace pal {
namespace {

template <class T>
__global__ void log_softmax_kernel(T* y, const T* x, int64_t rows, int64_t width) {
  const int64_t row = row_of_warp();
  if (row >= rows) return;
  const int64_t base = row * width;
  const float lse = log_sum_exp(x + base, width);
  const T* const rows_in[] = {x + base};
  warp_map_row(y + base, rows_in, width, is_wide(x, width) && is_wide(y, width),
               [&]<int n>(int64_t, float(&v)[1][n]) {
#pragma unroll
                 for (int k = 0; k < n; ++k) v[0][k] = v[0][k] - lse;
               });
}
void run_log_softmax(const KernelArgs& a) {
  const int64_t width = a.in_spec[0].shape.back(), rows = row_count(a.in_spec[0].shape);
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(log_softmax_kernel<T>, {blocks_of(rows, kRowsPerBlock)}, a, a.output<T>(0),
           a.input<T>(0), rows, width);
  });
}

// The first of the largest; 0 in a row of NaNs.
template <class T>
__global__ void argmax_kernel(int32_t* y, const T* x, int64_t rows, int64_t width) {
  const int64_t row = row_of_warp();
  if (row >= rows) return;
  const T* mine = x + row * width;
  const float most = warp_row_max(mine, width);
  int best = 0x7fffffff;
  for (int64_t j = lane_number(); j < width && best == 0x7fffffff; j += kWarp) {
    if (load(mine, j) == most) best = int(j);
  }
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const int other = __shfl_xor_sync(kAllLanes, best, step);
    best = other < best ? other : best;
  }
  if (lane_number() == 0) y[row] = best < width ? best : 0;
}
void run_argmax(const KernelArgs& a) {
  const int64_t width = a.in_spec[0].shape.back(), rows = row_count(a.in_spec[0].shape);
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(argmax_kernel<T>, {blocks_of(rows, kRowsPerBlock)}, a, a.output<int32_t>(0),
           a.input<T>(0), rows, width);
  });
}

}  // namespace

const Backend argmax_rows_cuda{.run = run_argmax};
const Backend log_softmax_cuda{.run = run_log_softmax};

}  // namespace pal
