// global_avg_pool and its gradient: a thread has a channel of an image (of a pixel), and adds the
// pixels in the CPU's order.
#include "ops/convolution/global_avg_pool.h"
#include "ops/kernels/cuda_elements.h"
#include "ops/kernels/divisor.h"

namespace pal {
namespace {

template <class T>
__global__ void global_avg_pool_kernel(T* y, const T* x, int64_t images, int64_t pixels,
                                       int64_t channels, Divisor by_channels, float share) {
  const int64_t i = thread_number();
  if (i >= images * channels) return;
  const auto [n, c] = by_channels.parts(i);
  const T* image = x + n * pixels * channels + c;
  float sum = 0;
  for (int64_t p = 0; p < pixels; ++p) sum += load(image, p * channels);
  store(y, i, sum * share);
}

template <class T>
__global__ void global_avg_pool_grad_kernel(T* dx, const T* dy, int64_t size, int64_t channels,
                                            Divisor by_image, Divisor by_channels, float share) {
  const int64_t i = thread_number();
  if (i >= size) return;
  store(dx, i, load(dy, by_image.quotient(i) * channels + by_channels.rest(i)) * share);
}

void run_global_avg_pool(const KernelArgs& a) {
  const Shape& x = a.in_spec[0].shape;
  const int64_t pixels = x[1] * x[2];
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(global_avg_pool_kernel<T>, {blocks_of(x[0] * x[3], kThreads)}, a, a.output<T>(0),
           a.input<T>(0), x[0], pixels, x[3], Divisor(x[3]), 1.0f / float(pixels));
  });
}

void run_global_avg_pool_grad(const KernelArgs& a) {
  const Shape& x = a.out_spec[0].shape;
  const int64_t pixels = x[1] * x[2];
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(global_avg_pool_grad_kernel<T>, {blocks_of(x.numel(), kThreads)}, a, a.output<T>(0),
           a.input<T>(0), x.numel(), x[3], Divisor(pixels * x[3]), Divisor(x[3]),
           1.0f / float(pixels));
  });
}

}  // namespace

const Backend global_avg_pool_cuda{.run = run_global_avg_pool};
const Backend global_avg_pool_grad_cuda{.run = run_global_avg_pool_grad};

}  // namespace pal
