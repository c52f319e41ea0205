// avg_pool and its gradient: a thread has a channel of a pixel of the result, neighbours have
// neighbouring channels. The gradient gathers, window by window in the CPU's order.
#include "ops/convolution/avg_pool.h"
#include "ops/kernels/cuda_elements.h"
#include "ops/kernels/pooling.h"

namespace pal {
namespace {

template <class T>
__global__ void avg_pool_kernel(T* y, const T* x, PoolExtents e, PixelPlaces places,
                                AvgPoolAttrs s) {
  const int64_t i = thread_number();
  if (i >= e.images * e.out_height * e.out_width * e.channels) return;
  const PixelPlace at = places.of(i);
  const PoolSpan rows(at.row * s.stride_h - s.top, s.kernel_h, e.height);
  const PoolSpan columns(at.column * s.stride_w - s.left, s.kernel_w, e.width);
  const T* image = x + at.image * e.height * e.width * e.channels + at.channel;
  float sum = 0;
  for (int64_t h = rows.begin; h < rows.end; ++h) {
    for (int64_t w = columns.begin; w < columns.end; ++w) {
      sum += load(image, (h * e.width + w) * e.channels);
    }
  }
  store(y, i, sum * pool_share(rows, columns, s));
}

template <class T>
__global__ void avg_pool_grad_kernel(T* dx, const T* dy, PoolExtents e, PixelPlaces places,
                                     AvgPoolAttrs s) {
  const int64_t i = thread_number();
  if (i >= e.images * e.height * e.width * e.channels) return;
  const PixelPlace at = places.of(i);
  const int64_t c = at.channel, n = at.image, h = at.row + s.top, w = at.column + s.left;
  float sum = 0;
  for (int64_t k = first_window(h, s.kernel_h, s.stride_h); k < e.out_height && k * s.stride_h <= h;
       ++k) {
    const PoolSpan rows(k * s.stride_h - s.top, s.kernel_h, e.height);
    for (int64_t l = first_window(w, s.kernel_w, s.stride_w);
         l < e.out_width && l * s.stride_w <= w; ++l) {
      const PoolSpan columns(l * s.stride_w - s.left, s.kernel_w, e.width);
      const int64_t from = ((n * e.out_height + k) * e.out_width + l) * e.channels + c;
      sum += load(dy, from) * pool_share(rows, columns, s);
    }
  }
  store(dx, i, sum);
}

void run_avg_pool(const KernelArgs& a) {
  const Shape &x = a.in_spec[0].shape, &y = a.out_spec[0].shape;
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(avg_pool_kernel<T>, {blocks_of(y.numel(), kThreads)}, a, a.output<T>(0), a.input<T>(0),
           PoolExtents{x[0], x[1], x[2], x[3], y[1], y[2]}, PixelPlaces(y[1], y[2], y[3]),
           a.attrs.as<AvgPoolAttrs>());
  });
}

void run_avg_pool_grad(const KernelArgs& a) {
  const Shape &dy = a.in_spec[0].shape, &dx = a.out_spec[0].shape;
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(avg_pool_grad_kernel<T>, {blocks_of(dx.numel(), kThreads)}, a, a.output<T>(0),
           a.input<T>(0), PoolExtents{dx[0], dx[1], dx[2], dx[3], dy[1], dy[2]},
           PixelPlaces(dx[1], dx[2], dx[3]), a.attrs.as<AvgPoolAttrs>());
  });
}

}  // namespace

const Backend avg_pool_cuda{.run = run_avg_pool};
const Backend avg_pool_grad_cuda{.run = run_avg_pool_grad};

}  // namespace pal
