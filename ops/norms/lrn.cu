// lrn and its gradient: a warp has a row, whose squares (and for the gradient what its neighbours'
// denominators bring) lie in shared memory. Windows are added up in the CPU's order.
#include "ops/kernels/cuda_rows.h"
#include "ops/norms/lrn.h"

namespace pal {
namespace {

constexpr int64_t kSharedFloats = 8192;  // of a block

// The sum over the window around c, in the order of the CPU's.
__device__ float window_sum(const float* x, int64_t c, int64_t channels, int64_t half) {
  float sum = x[c];
  for (int64_t d = 1; d <= half && d < channels; ++d) {
    if (c + d < channels) sum += x[c + d];
    if (c >= d) sum += x[c - d];
  }
  return sum;
}

struct Rows {
  int64_t rows, channels, half;  // half: neighbours on either side
};
// This warp's row, and its part of shared memory, of `arrays` rows.
__device__ int64_t own_row(const Rows& r, int arrays, float** shared) {
  *shared = shared_memory<float>() + warp_number() * arrays * r.channels;
  return int64_t(blockIdx.x) * (blockDim.x / kWarp) + warp_number();
}

// By the warp whose row it is.
template <class T> __device__ void fill_squares(float* squares, const T* x, int64_t channels) {
  for (int64_t c = lane_number(); c < channels; c += kWarp) squares[c] = load(x, c) * load(x, c);
  __syncwarp();
}

template <class T> __global__ void lrn_kernel(T* y, const T* x, Rows r, LrnFormula f) {
  float* squares;
  const int64_t row = own_row(r, 1, &squares), at = row * r.channels;
  if (row >= r.rows) return;
  fill_squares(squares, x + at, r.channels);
  for (int64_t c = lane_number(); c < r.channels; c += kWarp) {
    const float power = f.power(f.denominator(window_sum(squares, c, r.channels, r.half)));
    store(y, at + c, load(x, at + c) * power);
  }
}

template <class T>
__global__ void lrn_grad_kernel(T* dx, const T* dy, const T* x, Rows r, LrnFormula f) {
  float* squares;
  const int64_t row = own_row(r, 2, &squares), at = row * r.channels;
  float* parts = squares + r.channels;
  if (row >= r.rows) return;
  fill_squares(squares, x + at, r.channels);
  for (int64_t c = lane_number(); c < r.channels; c += kWarp) {
    const float d = f.denominator(window_sum(squares, c, r.channels, r.half));
    parts[c] = f.part(load(dy, at + c), load(x, at + c), f.power(d), d);
  }
  __syncwarp();
  for (int64_t c = lane_number(); c < r.channels; c += kWarp) {
    const float power = f.power(f.denominator(window_sum(squares, c, r.channels, r.half)));
    const float sum = window_sum(parts, c, r.channels, r.half);
    store(dx, at + c, f.gradient(load(dy, at + c), load(x, at + c), power, sum));
  }
}

Rows rows_of(const KernelArgs& a) {
  const int64_t channels = a.in_spec[0].shape.back();
  return {a.in_spec[0].numel() / channels, channels, a.attrs.as<LrnAttrs>().size / 2};
}
// Warps of a block: as many as shared memory has room for.
int warps_of(const Rows& r, int arrays) {
  static_assert(2 * kLrnMostChannels <= kSharedFloats);
  const int64_t fit = kSharedFloats / (arrays * r.channels);
  return int(fit < kRowsPerBlock ? fit : kRowsPerBlock);
}

void run_lrn(const KernelArgs& a) {
  const Rows r = rows_of(a);
  const int warps = warps_of(r, 1);
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(lrn_kernel<T>, {blocks_of(r.rows, warps)}, warps * kWarp,
           size_t(warps * r.channels) * sizeof(float), stream_of(a), a.output<T>(0), a.input<T>(0),
           r, LrnFormula(a.attrs.as<LrnAttrs>()));
  });
}

void run_lrn_grad(const KernelArgs& a) {
  const Rows r = rows_of(a);
  const int warps = warps_of(r, 2);
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(lrn_grad_kernel<T>, {blocks_of(r.rows, warps)}, warps * kWarp,
           size_t(warps * 2 * r.channels) * sizeof(float), stream_of(a), a.output<T>(0),
           a.input<T>(0), a.input<T>(1), r, LrnFormula(a.attrs.as<LrnAttrs>()));
  });
}

}  // namespace

const Backend lrn_cuda{.run = run_lrn};
const Backend lrn_grad_cuda{.run = run_lrn_grad};

}  // namespace pal
