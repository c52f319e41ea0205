// max_pool and its gradient: a thread has eight channels of a pixel where the windows are of the
// usual sizes and channels come in eights, else one (or two elements whose places share a byte of
// the map); neighbours have neighbouring channels. The gradient gathers, window by window in the
// CPU's order, so nothing is added to twice at once.
#include <limits>

#include "ops/convolution/max_pool.h"
#include "ops/kernels/cuda_elements.h"
#include "ops/kernels/cuda_rows.h"
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

// ---- eight channels a thread: their places in a window are a word of the map ----

// Square windows of kSize, kStep apart. A tap outside the image stands for the first one inside,
// whose second meeting changes nothing, so that all loads go out at once.
template <class T, int kSize, int kStep>
__global__ void max_pool_groups_kernel(T* y, uint32_t* map, const T* x, PoolExtents e,
                                       PixelPlaces places, int top, int left, bool positive) {
  const int64_t groups = e.channels / kGroup, i = thread_number();
  if (i >= e.images * e.out_height * e.out_width * groups) return;
  const PixelPlace at = places.of(i);
  const int h0 = int(at.row) * kStep - top, w0 = int(at.column) * kStep - left;
  const int height = int(e.height), width = int(e.width);
  const int first_k = h0 < 0 ? -h0 : 0, first_l = w0 < 0 ? -w0 : 0;
  const T* image = x + at.image * e.height * e.width * e.channels + at.channel * kGroup;
  float best[kGroup];
  int place[kGroup];
#pragma unroll
  for (int tap = 0; tap < kSize * kSize; ++tap) {
    int k = tap / kSize, l = tap % kSize;
    const bool inside = k >= first_k && h0 + k < height && l >= first_l && w0 + l < width;
    k = inside ? k : first_k, l = inside ? l : first_l;
    float v[kGroup];
    load8(whole_groups(image), int64_t((h0 + k) * width + w0 + l) * e.channels, kGroup, v);
    const int here = k * kSize + l;
#pragma unroll
    for (int c = 0; c < kGroup; ++c) {
      const bool larger = tap == 0 || v[c] > best[c] || (v[c] != v[c] && best[c] == best[c]);
      best[c] = larger ? v[c] : best[c], place[c] = larger ? here : place[c];
    }
  }
  if (y) store8(whole_groups(y), i * kGroup, kGroup, best);
  if (!map) return;
  uint32_t codes = 0;
#pragma unroll
  for (int c = 0; c < kGroup; ++c) {
    const bool nowhere = positive && !(0 < best[c] && best[c] < kInfinity);
    codes |= uint32_t(nowhere ? kNowhere : place[c]) << (4 * c);
  }
  map[i] = codes;
}

// The pixel is the thread's; a window that is not there has no maximum in it.
template <class T, int kSize, int kStep>
__global__ void max_pool_grad_groups_kernel(T* dx, const T* dy, const uint32_t* map, PoolExtents e,
                                            PixelPlaces places, int top, int left) {
  constexpr int kWindows = (kSize + kStep - 1) / kStep;  // of a pixel, along an axis
  const int64_t groups = e.channels / kGroup, i = thread_number();
  if (i >= e.images * e.height * e.width * groups) return;
  const PixelPlace at = places.of(i);
  const int h = int(at.row) + top, w = int(at.column) + left;
  const int out_height = int(e.out_height), out_width = int(e.out_width);
  const int first_row = h < kSize ? 0 : (h - kSize) / kStep + 1;
  const int first_column = w < kSize ? 0 : (w - kSize) / kStep + 1;
  float sum[kGroup] = {};
#pragma unroll
  for (int window = 0; window < kWindows * kWindows; ++window) {
    const int k = first_row + window / kWindows, l = first_column + window % kWindows;
    const bool there = k < out_height && k * kStep <= h && l < out_width && l * kStep <= w;
    const int64_t row = at.image * out_height + (there ? k : 0);
    const int64_t from = (row * out_width + (there ? l : 0)) * groups + at.channel;
    const uint32_t here = uint32_t((h - k * kStep) * kSize + w - l * kStep), codes = map[from];
    float v[kGroup];
    load8(whole_groups(dy), from * kGroup, kGroup, v);
#pragma unroll
    for (int c = 0; c < kGroup; ++c) {
      sum[c] += there && (codes >> (4 * c) & 15) == here ? v[c] : 0;
    }
  }
  store8(whole_groups(dx), i * kGroup, kGroup, sum);
}

// Calls f(size, step) with constants where the windows are such as these kernels have, and eight
// channels lie on boundaries of 16 bytes in both images. Returns whether it did.
template <class F>
bool by_pool_window(const MaxPoolAttrs& s, int64_t channels, const void* image, const void* other,
                    const void* map, F f) {
  const auto lies = [](const void* p, uintptr_t at) {
    return reinterpret_cast<uintptr_t>(p) % at == 0;
  };
  const int64_t size = s.kernel_h, step = s.stride_h;
  if (channels % kGroup || !lies(image, 16) || !lies(other, 16) || !lies(map, 4)) return false;
  if (s.kernel_w != size || s.stride_w != step) return false;
  using std::integral_constant;
  if (size == 2 && step == 2) {
    f(integral_constant<int, 2>{}, integral_constant<int, 2>{});
  } else if (size == 3 && step == 2) {
    f(integral_constant<int, 3>{}, integral_constant<int, 2>{});
  } else {
    return false;
  }
  return true;
}

void run_max_pool(const KernelArgs& a) {
  auto& s = a.attrs.as<MaxPoolAttrs>();
  const Shape &x = a.in_spec[0].shape, y = pooled(x, s);  // either output may be unread
  const PoolExtents e{x[0], x[1], x[2], x[3], y[1], y[2]};
  const int each = map_type(s) == DType::u4 ? 2 : 1;  // elements of a thread
  const int64_t n = e.images * e.out_height * e.out_width * e.channels;
  const int64_t blocks = blocks_of(n, each * kThreads);
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    const bool done =
        by_pool_window(s, x[3], a.in[0], a.out[0], a.out[1], [&](auto size, auto step) {
          launch(max_pool_groups_kernel<T, size, step>, grid_of_groups(n / kGroup), a,
                 a.output<T>(0), a.output<uint32_t>(1), a.input<T>(0), e,
                 PixelPlaces(y[1], y[2], x[3] / kGroup), int(s.top), int(s.left), s.positive);
        });
    if (done) return;
    launch(max_pool_kernel<T>, {blocks}, a, a.output<T>(0), a.output<uint8_t>(1), a.input<T>(0), e,
           PixelPlaces(y[1], y[2], x[3]), s, each);
  });
}

void run_max_pool_grad(const KernelArgs& a) {
  auto& s = a.attrs.as<MaxPoolAttrs>();
  const Shape& y = a.in_spec[0].shape;
  const PoolExtents e{y[0], s.height, s.width, y[3], y[1], y[2]};
  const int64_t n = e.images * e.height * e.width * e.channels, blocks = blocks_of(n, kThreads);
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    const bool done =
        by_pool_window(s, y[3], a.in[0], a.out[0], a.in[1], [&](auto size, auto step) {
          launch(max_pool_grad_groups_kernel<T, size, step>, grid_of_groups(n / kGroup), a,
                 a.output<T>(0), a.input<T>(0), a.input<uint32_t>(1), e,
                 PixelPlaces(s.height, s.width, y[3] / kGroup), int(s.top), int(s.left));
        });
    if (done) return;
    launch(max_pool_grad_kernel<T>, {blocks}, a, a.output<T>(0), a.input<T>(0), a.input<uint8_t>(1),
           e, PixelPlaces(s.height, s.width, y[3]), s, a.in_spec[1].dtype == DType::u4);
  });
}

}  // namespace

const Backend max_pool_cuda{.run = run_max_pool};
const Backend max_pool_grad_cuda{.run = run_max_pool_grad};

}  // namespace pal
