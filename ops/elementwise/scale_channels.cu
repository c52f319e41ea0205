// scale_channels and dot_channels. A block adds up 32 channels of an image: a warp a run of pixels,
// the runs' sums one after the other, as on the CPU.
#include "ops/elementwise/scale_channels.h"
#include "ops/kernels/cuda_elements.h"

namespace pal {
namespace {

constexpr int kRuns = kThreads / kWarp;  // at a time

__global__ void scale_channels_kernel(Stored y, Stored x, Stored factor, int64_t images,
                                      int64_t pixels, int64_t channels, bool apart) {
  const RowEight e(images * pixels, channels, apart);
  if (e.none()) return;
  const int64_t of_image[2] = {divide(e.row[0], pixels) * channels + e.column[0],
                               divide(e.row[1], pixels) * channels + e.column[1]};
  float v[kGroup], f[kGroup];
  e.load(x, v), e.load(factor, of_image, f);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) v[k] = v[k] * f[k];
  e.store(y, v);
}

template <class T>
__global__ void dot_channels_kernel(T* out, const T* a, const T* b, int64_t pixels,
                                    int64_t channels) {
  float* run_sums = shared_memory<float>();  // (kRuns, kWarp)
  const unsigned across = unsigned((channels + kWarp - 1) / kWarp);
  const int64_t image = blockIdx.x / across, c = blockIdx.x % across * kWarp + lane_number();
  const int64_t first = image * pixels * channels + c;
  float total = 0;
  for (int64_t begin = 0; begin < pixels; begin += kRuns * kDotRun) {
    const int64_t from = begin + warp_number() * kDotRun;
    const int64_t end = from + kDotRun < pixels ? from + kDotRun : pixels;
    float sum = 0;
    if (c < channels) {
#pragma unroll 8
      for (int64_t p = from; p < end; ++p) {
        sum += load(a, first + p * channels) * load(b, first + p * channels);
      }
    }
    run_sums[threadIdx.x] = sum;
    __syncthreads();
    if (warp_number() == 0) {
      for (int r = 0; r < kRuns && begin + r * kDotRun < pixels; ++r) {
        total += run_sums[r * kWarp + lane_number()];
      }
    }
    __syncthreads();
  }
  if (warp_number() == 0 && c < channels) store(out, image * channels + c, total);
}

// Of x (N, .., C): images, pixels of one, channels.
struct Extents {
  int64_t images, pixels, channels;
  explicit Extents(const Shape& x)
      : images(x[0]), pixels(x.numel() / (x[0] * x.back())), channels(x.back()) {}
};

void run_scale_channels(const KernelArgs& a) {
  const Extents e(a.in_spec[0].shape);
  const Stored y = stored(a.out[0], a.out_spec[0], e.channels),
               x = stored(a.in[0], a.in_spec[0], e.channels);
  launch(scale_channels_kernel, grid_of_groups(e.images * e.pixels * groups_of(e.channels)), a, y,
         x, stored(a.in[1], a.in_spec[1], e.channels), e.images, e.pixels, e.channels,
         row_fours_apart(e.channels, y, x));
}

void run_dot_channels(const KernelArgs& a) {
  const Extents e(a.in_spec[0].shape);
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(dot_channels_kernel<T>, {blocks_of(e.channels, kWarp) * e.images}, kThreads,
           kThreads * sizeof(float), stream_of(a), a.output<T>(0), a.input<T>(0), a.input<T>(1),
           e.pixels, e.channels);
  });
}

}  // namespace

const Backend dot_channels_cuda{.run = run_dot_channels};
const Backend scale_channels_cuda{.run = run_scale_channels};

}  // namespace pal
