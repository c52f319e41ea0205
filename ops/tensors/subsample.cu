// subsample and its gradient: a thread has a channel of a pixel of the result.
#include "ops/kernels/cuda_elements.h"
#include "ops/kernels/pooling.h"
#include "ops/tensors/subsample.h"

namespace pal {
namespace {

// Of the large image and the small one.
struct Extents {
  int64_t images, height, width, channels, small_height, small_width, small_channels;
};

template <class T>
__global__ void subsample_kernel(T* y, const T* x, Extents e, PixelPlaces places, int64_t stride) {
  const int64_t i = thread_number();
  if (i >= e.images * e.small_height * e.small_width * e.small_channels) return;
  const PixelPlace at = places.of(i);
  const int64_t h = at.image * e.height + at.row * stride, w = at.column * stride;
  y[i] = at.channel < e.channels ? x[(h * e.width + w) * e.channels + at.channel] : T{};
}

template <class T>
__global__ void subsample_grad_kernel(T* dx, const T* dy, Extents e, PixelPlaces places,
                                      Divisor stride) {
  const int64_t i = thread_number();
  if (i >= e.images * e.height * e.width * e.channels) return;
  const PixelPlace at = places.of(i);
  const auto h = stride.parts(at.row), w = stride.parts(at.column);
  const int64_t small = at.image * e.small_height + h.q;
  const bool taken = h.r == 0 && w.r == 0;
  dx[i] = taken ? dy[(small * e.small_width + w.q) * e.small_channels + at.channel] : T{};
}

Extents extents(const Shape& large, const Shape& small) {
  return {large[0], large[1], large[2], large[3], small[1], small[2], small[3]};
}

void run_subsample(const KernelArgs& a) {
  const Shape &x = a.in_spec[0].shape, &y = a.out_spec[0].shape;
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(subsample_kernel<T>, {blocks_of(y.numel(), kThreads)}, a, a.output<T>(0), a.input<T>(0),
           extents(x, y), PixelPlaces(y[1], y[2], y[3]), a.attrs.as<SubsampleAttrs>().stride);
  });
}

void run_subsample_grad(const KernelArgs& a) {
  const Shape &dy = a.in_spec[0].shape, &dx = a.out_spec[0].shape;
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(subsample_grad_kernel<T>, {blocks_of(dx.numel(), kThreads)}, a, a.output<T>(0),
           a.input<T>(0), extents(dx, dy), PixelPlaces(dx[1], dx[2], dx[3]),
           Divisor(a.attrs.as<SubsampleAttrs>().stride));
  });
}

}  // namespace

const Backend subsample_cuda{.run = run_subsample};
const Backend subsample_grad_cuda{.run = run_subsample_grad};

}  // namespace pal
