// The windows of a stripe of output pixels, laid out for products, and what lies in them summed.
#include "ops/convolution/cuda_windows.h"

namespace pal {
namespace {

constexpr int kPixelsAThread = 8, kAtOnce = 4;  // pixels; loads before the first store

// Where a run of a window's elements begins in the image.
struct RunOfTaps {
  int k0, k1, k2;  // its first tap

  __device__ RunOfTaps(const Windows& w, const Stripe& s, int run) : k2(0) {
    if (!s.joined) {
      const int rest = run / w.axis[2].kernel;
      k2 = run - rest * w.axis[2].kernel, run = rest;
    }
    k0 = run / w.axis[1].kernel, k1 = run - k0 * w.axis[1].kernel;
  }
};

// Whether all taps of a window lie inside that begins there.
__device__ bool all_taps_inside(const WindowAxis& axis, int at) {
  return at >= 0 && at + (axis.kernel - 1) * axis.dilation < axis.in;
}

__device__ void to_next(Pixel& p, const Windows& w) {
  if (++p.at[2] < w.axis[2].out) return;
  p.at[2] = 0;
  if (++p.at[1] < w.axis[1].out) return;
  p.at[1] = 0;
  if (++p.at[0] < w.axis[0].out) return;
  p.at[0] = 0, ++p.n;
}

// windows[group, pixel, tap, c] = x there, 0 outside; eight elements of a run a thread, of some
// pixels in turn.
__global__ void lay_windows_kernel(Stored windows, Stored x, Windows w, Stripe s) {
  const int64_t per_run = (s.run + kGroup - 1) / kGroup, across = s.runs * per_run;
  const int64_t chunks = (s.pixels + kPixelsAThread - 1) / kPixelsAThread;
  const int64_t t = thread_number();
  if (t >= w.groups * chunks * across) return;
  const int64_t chunk_of_group = divide(t, across), column = t - chunk_of_group * across;
  const int64_t group = divide(chunk_of_group, chunks);
  const int64_t begin = (chunk_of_group - group * chunks) * kPixelsAThread;
  const int64_t end = begin + kPixelsAThread < s.pixels ? begin + kPixelsAThread : s.pixels;
  const int run = int(divide(column, per_run));
  const int64_t e = (column - run * per_run) * kGroup;
  const int n = s.run - e < kGroup ? int(s.run - e) : kGroup;
  const RunOfTaps taps(w, s, run);
  const int64_t channels = w.groups * w.c, width = w.axis[2].in * channels;
  const int64_t window = s.runs * s.run, to = group * s.pixels * window + run * s.run + e;
  Pixel p = output_pixel(w, s.first + begin);
  // Where the next pixel's elements begin in their line, which they may stick out of, and where the
  // line does; -1: they are outside.
  const auto next = [&](int64_t& from) -> int64_t {
    const int h = w.axis[0].place(p.at[0], taps.k0), i = w.axis[1].place(p.at[1], taps.k1);
    const int j = w.axis[2].place(p.at[2], taps.k2);
    const int64_t line = w.pixel_in(p.n, h, i, 0) * channels;
    to_next(p, w);
    from = j * channels + group * w.c + e;
    const bool inside = w.axis[0].inside(h) && w.axis[1].inside(i);
    return inside && (s.joined || w.axis[2].inside(j)) ? line : -1;
  };
  if (windows.vector && x.vector && x.type != DType::f32) {
    const auto* image = static_cast<const uint16_t*>(x.data);
    auto* out = static_cast<uint16_t*>(windows.data) + to;
    for (int64_t q = begin; q < end; q += kAtOnce) {
      uint4 v[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        v[k] = uint4{0u, 0u, 0u, 0u};
        if (q + k >= end) continue;
        int64_t from;
        const int64_t line = next(from);
        if (line < 0 || from < 0 || from + kGroup > width) continue;
        v[k] = *reinterpret_cast<const uint4*>(image + line + from);
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        if (q + k < end) *reinterpret_cast<uint4*>(out + (q + k) * window) = v[k];
      }
    }
    return;
  }
  for (int64_t q = begin; q < end; ++q) {
    float v[kGroup] = {};
    int64_t from;
    const int64_t line = next(from);
    if (line >= 0 && from >= 0 && from + n <= width) {
      load8(x, line + from, n, v);
    } else if (line >= 0) {
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        if (k < n && from + k >= 0 && from + k < width) v[k] = load1(x, line + from + k);
      }
    }
    store8(windows, to + q * window, n, v);
  }
}

__device__ void store_eight(uint16_t* to, const uint16_t* v) {
  const auto two = [&](int k) { return uint32_t(v[k]) | uint32_t(v[k + 1]) << 16; };
  *reinterpret_cast<uint4*>(to) = uint4{two(0), two(2), two(4), two(6)};
}
__device__ void store_eight(float* to, const float* v) {
  reinterpret_cast<float4*>(to)[0] = float4{v[0], v[1], v[2], v[3]};
  reinterpret_cast<float4*>(to)[1] = float4{v[4], v[5], v[6], v[7]};
}

// The same in rows of a multiple of eight elements, zeros behind a window's own, of one group;
// eight elements of a row a thread, whatever runs they belong to. T: bits of the elements.
template <class T>
__global__ void lay_padded_windows_kernel(T* windows, const T* x, Windows w, Stripe s,
                                          int64_t row) {
  const int64_t across = row / kGroup, t = thread_number();
  const int64_t chunk = divide(t, across), e = (t - chunk * across) * kGroup;
  const int64_t begin = chunk * kPixelsAThread;
  if (begin >= s.pixels) return;
  const int64_t end = begin + kPixelsAThread < s.pixels ? begin + kPixelsAThread : s.pixels;
  const int64_t window = s.runs * s.run, width = w.axis[2].in * w.c;
  const int n = window - e < kGroup ? int(window - e) : kGroup;
  const int first_run = int(divide(e, s.run)), first = int(e - first_run * s.run);
  // Where elements lie, from the window's first pixel on.
  int64_t at[kGroup];
  int run = first_run, in_run = first;
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    const RunOfTaps taps(w, s, run);
    const int64_t line =
        int64_t(taps.k0) * w.axis[0].dilation * w.axis[1].in + taps.k1 * w.axis[1].dilation;
    at[k] = line * width + taps.k2 * w.axis[2].dilation * w.c + in_run;
    if (++in_run == s.run) in_run = 0, ++run;
  }
  Pixel p = output_pixel(w, s.first + begin);
  for (int64_t q = begin; q < end; ++q) {
    const int h = w.axis[0].place(p.at[0], 0), i = w.axis[1].place(p.at[1], 0);
    const int j = w.axis[2].place(p.at[2], 0);
    const T* from = x + w.pixel_in(p.n, h, i, j) * w.c;
    to_next(p, w);
    T v[kGroup] = {};
    if (all_taps_inside(w.axis[0], h) && all_taps_inside(w.axis[1], i) &&
        all_taps_inside(w.axis[2], j)) {
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        if (k < n) v[k] = from[at[k]];
      }
    } else {
      run = first_run, in_run = first;
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        const RunOfTaps taps(w, s, run);
        const int64_t column = (j + taps.k2 * w.axis[2].dilation) * w.c + in_run;
        const bool lines = w.axis[0].inside(h + taps.k0 * w.axis[0].dilation) &&
                           w.axis[1].inside(i + taps.k1 * w.axis[1].dilation);
        if (k < n && lines && column >= 0 && column < width) v[k] = from[at[k]];
        if (++in_run == s.run) in_run = 0, ++run;
      }
    }
    store_eight(windows + q * row + e, v);
  }
}

// dx of a pixel: the sum over the windows of this stripe that it lies in, in their order, onto the
// earlier stripes' where an image has several (`add`). Eight channels of a group a thread. `to` is
// the first image's place in dx.
__global__ void sum_windows_kernel(Stored dx, int64_t to, Stored windows, Windows w, Stripe s,
                                   int64_t first_image, int64_t images, bool add) {
  const RowGroup g = row_group(images * w.pixels_in() * w.groups, w.c);
  if (g.n == 0) return;
  const int64_t pixel = divide(g.row, w.groups), group = g.row - pixel * w.groups;
  const int64_t at = to * w.pixels_in() * w.groups * w.c + g.at;
  Pixel p = input_pixel(w, pixel);
  p.n += first_image;
  float sum[kGroup] = {}, v[kGroup];
  bool any = !add;
  each_window(w, p, [&](int64_t tap, int64_t output) {
    const int64_t window = output - s.first;
    if (window < 0 || window >= s.pixels) return;
    const int64_t from = ((group * s.pixels + window) * w.taps() + tap) * w.c + g.column;
    load8(windows, from, g.n, v);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) sum[k] += v[k];
    any = true;
  });
  if (!any) return;
  if (add) {
    load8(dx, at, g.n, v);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) sum[k] = v[k] + sum[k];
  }
  store8(dx, at, g.n, sum);
}

template <class T>
void lay_padded(const KernelArgs& a, const ConvStripes& cut, const Stripe& s, void* windows) {
  const int64_t chunks = blocks_of(s.pixels, kPixelsAThread);
  launch(lay_padded_windows_kernel<T>, grid_of_groups(chunks * (cut.row / kGroup)), a,
         static_cast<T*>(windows), static_cast<const T*>(a.in[0]), Windows(cut), s, cut.row);
}

}  // namespace

void lay_windows(const KernelArgs& a, const ConvStripes& cut, const Stripe& s, void* windows) {
  if (cut.padded() && cut.type == DType::f32) return lay_padded<float>(a, cut, s, windows);
  if (cut.padded()) return lay_padded<uint16_t>(a, cut, s, windows);
  const int64_t chunks = cut.groups * blocks_of(s.pixels, kPixelsAThread);
  launch(lay_windows_kernel, grid_of_groups(chunks * s.runs * groups_of(s.run)), a,
         stored(windows, {{}, cut.type}, cut.c), stored(a.in[0], a.in_spec[0], cut.c), Windows(cut),
         s);
}

void sum_windows(const KernelArgs& a, const ConvStripes& cut, const Stripe& s, const void* windows,
                 Stored dx, int64_t to, int64_t first_image, int64_t images, bool add) {
  const Windows w(cut);
  const int64_t places = images * w.pixels_in() * cut.groups;
  launch(sum_windows_kernel, grid_of_groups(places * groups_of(cut.c)), a, dx, to,
         floats(windows, cut.c), w, s, first_image, images, add);
}

}  // namespace pal
