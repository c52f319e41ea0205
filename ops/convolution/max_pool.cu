// max_pool and its gradient: a thread has a channel of a pixel (or two elements whose places share
// a byte of the map), neighbours have neighbouring channels. The gradient gathers, window by window
// in the CPU's order, so nothing is added to twice at once.
#include <limits>

#include "ops/convolution/max_pool.h"
#include "ops/kernels/cuda_elements.h"
#include "ops/kernels/pooling.h"

namespace pal {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Element i of y, and its code in the map.
template <class T>
__device__ int largest(T* y, const T* x, int64_t i, const PoolExtents& e, const PixelPlace& at_y,
                       const MaxPoolAttrs& s) {
  const int64_t h0 = at_y.row * s.stride_h - s.top, w0 = at_y.column * s.stride_w - s.left;
  const T* image = x + at_y.image * e.height * e.width * e.channels + at_y.channel;
  float best = 0;
  int64_t at = -1;
  for (int64_t k = h0 < 0 ? -h0 : 0; k < s.kernel_h && h0 + k < e.height; ++k) {
    for (int64_t l = w0 < 0 ? -w0 : 0; l < s.kernel_w && w0 + l < e.width; ++l) {
      const float v = load(image, ((h0 + k) * e.width + w0 + l) * e.channels);
      if (at < 0 || v > best || (v != v && best == best)) best = v, at = k * s.kernel_w + l;
    }
  }
  if (y) store(y, i, best);
  return s.positive && !(0 < best && best < kInfinity) ? kNowhere : int(at);
}

template <class T>
__global__ void max_pool_kernel(T* y, uint8_t* map, const T* x, PoolExtents e, PixelPlaces places,
                                MaxPoolAttrs s, int each) {
  const int64_t n = e.images * e.out_height * e.out_width * e.channels;
  const int64_t i = thread_number() * each;
  if (i >= n) return;
  int code = largest(y, x, i, e, places.of(i), s);
  if (each == 2 && i + 1 < n) code |= largest(y, x, i + 1, e, places.of(i + 1), s) << 4;
  if (map) map[thread_number()] = uint8_t(code);
}

template <class T>
__global__ void max_pool_grad_kernel(T* dx, const T* dy, const uint8_t* map, PoolExtents e,
                                     PixelPlaces places, MaxPoolAttrs s, bool nibbles) {
  const int64_t i = thread_number();
  if (i >= e.images * e.height * e.width * e.channels) return;
  const PixelPlace at = places.of(i);
  const int64_t c = at.channel, h = at.row + s.top, w = at.column + s.left;
  const int64_t image = at.image * e.out_height;
  const int64_t first_row = first_window(h, s.kernel_h, s.stride_h);
  const int64_t first_column = first_window(w, s.kernel_w, s.stride_w);
  float sum = 0;
  for (int64_t k = first_row; k < e.out_height && k * s.stride_h <= h; ++k) {
    for (int64_t l = first_column; l < e.out_width && l * s.stride_w <= w; ++l) {
      const int64_t from = ((image + k) * e.out_width + l) * e.channels + c;
      const int64_t here = (h - k * s.stride_h) * s.kernel_w + w - l * s.stride_w;
      const int code = nibbles ? load_u4(map, from) : map[from];
      sum += code == here ? load(dy, from) : 0;
    }
  }
  store(dx, i, sum);
}

void run_max_pool(const KernelArgs& a) {
  auto& s = a.attrs.as<MaxPoolAttrs>();
  const Shape &x = a.in_spec[0].shape, y = pooled(x, s);  // either output may be unread
  const PoolExtents e{x[0], x[1], x[2], x[3], y[1], y[2]};
  const int each = map_type(s) == DType::u4 ? 2 : 1;  // elements of a thread
  const int64_t n = e.images * e.out_height * e.out_width * e.channels;
  const int64_t blocks = blocks_of(n, each * kThreads);
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(max_pool_kernel<T>, {blocks}, a, a.output<T>(0), a.output<uint8_t>(1), a.input<T>(0), e,
           PixelPlaces(y[1], y[2], x[3]), s, each);
  });
}

void run_max_pool_grad(const KernelArgs& a) {
  auto& s = a.attrs.as<MaxPoolAttrs>();
  const Shape& y = a.in_spec[0].shape;
  const PoolExtents e{y[0], s.height, s.width, y[3], y[1], y[2]};
  const int64_t blocks = blocks_of(e.images * e.height * e.width * e.channels, kThreads);
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(max_pool_grad_kernel<T>, {blocks}, a, a.output<T>(0), a.input<T>(0), a.input<uint8_t>(1),
           e, PixelPlaces(s.height, s.width, y[3]), s, a.in_spec[1].dtype == DType::u4);
  });
}

}  // namespace

const Backend max_pool_cuda{.run = run_max_pool};
const Backend max_pool_grad_cuda{.run = run_max_pool_grad};

}  // namespace pal
