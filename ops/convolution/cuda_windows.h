// Where the windows of a convolution lie in its image, as kernels see it: what the products'
// kernels (ops/convolution/convolution.cu) and the depthwise ones share.
#pragma once
#include "ops/kernels/cuda_elements.h"
#include "ops/libraries/conv_stripes.h"

namespace pal {

struct WindowAxis {
  int in, kernel, out, stride, before, dilation;

  // Where tap k of window i lies.
  __device__ int place(int i, int k) const { return i * stride - before + k * dilation; }
  __device__ bool inside(int at) const { return at >= 0 && at < in; }
  // The window whose tap k lies there, or -1. Later taps belong to earlier windows.
  __device__ int window(int at, int k) const {
    const int from = at + before - k * dilation, i = from / stride;
    return from >= 0 && i * stride == from && i < out ? i : -1;
  }
};

struct Windows {
  WindowAxis axis[3];
  int64_t groups, c, o;  // channels of a group

  explicit Windows(const ConvStripes& s) : groups(s.groups), c(s.c), o(s.o) {
    for (size_t i = 0; i < 3; ++i) {
      const ConvAxis& a = s.axis[i];
      axis[i] = {int(a.in),     int(a.kernel), int(a.out),
                 int(a.stride), int(a.before), int(a.dilation)};
    }
  }
  __host__ __device__ int64_t taps() const {
    return int64_t(axis[0].kernel) * axis[1].kernel * axis[2].kernel;
  }
  __host__ __device__ int64_t pixels_in() const {
    return int64_t(axis[0].in) * axis[1].in * axis[2].in;
  }
  __host__ __device__ int64_t pixels_out() const {
    return int64_t(axis[0].out) * axis[1].out * axis[2].out;
  }
  // The pixel of the images at these places.
  __device__ int64_t pixel_in(int64_t n, int h, int i, int j) const {
    return ((n * axis[0].in + h) * axis[1].in + i) * axis[2].in + j;
  }
  __device__ int64_t pixel_out(int64_t n, int h, int i, int j) const {
    return ((n * axis[0].out + h) * axis[1].out + i) * axis[2].out + j;
  }
};

// A pixel's image and places, of input or output.
struct Pixel {
  int64_t n;
  int at[3];
};
__device__ inline Pixel pixel_of(int64_t i, int first, int second, int third) {
  const int64_t row = divide(i, third), plane = divide(row, second), n = divide(plane, first);
  return {n, {int(plane - n * first), int(row - plane * second), int(i - row * third)}};
}
__device__ inline Pixel input_pixel(const Windows& s, int64_t i) {
  return pixel_of(i, s.axis[0].in, s.axis[1].in, s.axis[2].in);
}
__device__ inline Pixel output_pixel(const Windows& s, int64_t i) {
  return pixel_of(i, s.axis[0].out, s.axis[1].out, s.axis[2].out);
}

// Calls f(tap, image pixel) for the taps of a window that lie inside.
template <class F> __device__ void each_tap(const Windows& w, const Pixel& p, F f) {
  for (int k0 = 0; k0 < w.axis[0].kernel; ++k0) {
    const int h = w.axis[0].place(p.at[0], k0);
    if (!w.axis[0].inside(h)) continue;
    for (int k1 = 0; k1 < w.axis[1].kernel; ++k1) {
      const int i = w.axis[1].place(p.at[1], k1);
      if (!w.axis[1].inside(i)) continue;
      for (int k2 = 0; k2 < w.axis[2].kernel; ++k2) {
        const int j = w.axis[2].place(p.at[2], k2);
        if (!w.axis[2].inside(j)) continue;
        f((k0 * w.axis[1].kernel + k1) * w.axis[2].kernel + k2, w.pixel_in(p.n, h, i, j));
      }
    }
  }
}

// Calls f(tap, output pixel) for the windows that an image pixel lies in, in their order.
template <class F> __device__ void each_window(const Windows& w, const Pixel& p, F f) {
  for (int k0 = w.axis[0].kernel - 1; k0 >= 0; --k0) {
    const int h = w.axis[0].window(p.at[0], k0);
    if (h < 0) continue;
    for (int k1 = w.axis[1].kernel - 1; k1 >= 0; --k1) {
      const int i = w.axis[1].window(p.at[1], k1);
      if (i < 0) continue;
      for (int k2 = w.axis[2].kernel - 1; k2 >= 0; --k2) {
        const int j = w.axis[2].window(p.at[2], k2);
        if (j < 0) continue;
        const int64_t tap = (int64_t(k0) * w.axis[1].kernel + k1) * w.axis[2].kernel + k2;
        f(tap, w.pixel_out(p.n, h, i, j));
      }
    }
  }
}

// A stripe's windows as they lie in memory. A run is what lies in one piece in the image too: a row
// of taps over all channels, or, where taps are apart or groups divide them, one tap's channels.
struct Stripe {
  int64_t first, pixels;  // output pixels
  bool joined;            // runs are rows of taps
  int64_t runs, run;      // of a window; elements of one

  Stripe(const Windows& w, int64_t first_pixel, int64_t pixel_count)
      : first(first_pixel),
        pixels(pixel_count),
        joined(w.axis[2].dilation == 1 && w.groups == 1),
        runs(joined ? int64_t(w.axis[0].kernel) * w.axis[1].kernel : w.taps()),
        run(joined ? w.axis[2].kernel * w.c : w.c) {}
};

// The windows of a stripe of a.in[0], in the type that products read (ops/convolution/windows.cu).
void lay_windows(const KernelArgs& a, const ConvStripes& cut, const Stripe& stripe, void* windows);
// dx of so many images from the first on, as the sums over a stripe's windows, onto what is there
// (`add`).
void sum_windows(const KernelArgs& a, const ConvStripes& cut, const Stripe& stripe,
                 const void* windows, Stored dx, int64_t to, int64_t first_image, int64_t images,
                 bool add);

// Convolutions of groups of one channel, without windows laid out (ops/convolution/depthwise.cu).
int64_t depthwise_workspace(ConvKind kind, const ConvStripes& s);
void run_depthwise(ConvKind kind, const ConvStripes& s, const KernelArgs& a);

}  // namespace pal
