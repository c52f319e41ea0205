// Convolutions whose groups have one input channel: too little for products, so a thread goes
// through the taps of eight channels of a pixel. The weight gradient is added up over chunks of
// lines, and then over the chunks, both in order.
#include "ops/convolution/cuda_windows.h"
#include "ops/kernels/cuda_rows.h"
#include "ops/kernels/operands.h"

namespace pal {
namespace {

constexpr int64_t kChunks = 64;  // of lines, at most: a partial weight gradient each

// y[p, o] = bias[o] + the sum over taps of x[.., o / per] w[o, tap]; `per` outputs a channel.
template <class T>
__global__ void depthwise_kernel(Stored y, Stored x, const T* weights, Stored bias, Windows w,
                                 int64_t pixels) {
  const int64_t outputs = w.groups * w.o;
  const RowGroup g = row_group(pixels, outputs);
  if (g.n == 0) return;
  const int64_t row = g.row, o = g.column, taps = w.taps();
  const int n = g.n;
  float sum[kGroup] = {}, v[kGroup];
  if (bias.data) load8(bias, o, n, sum);
  each_tap(w, output_pixel(w, row), [&](int tap, int64_t from) {
    if (w.o == 1) {
      load8(x, from * w.groups + o, n, v);
    } else {
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        if (k < n) v[k] = load1(x, from * w.groups + divide(o + k, w.o));
      }
    }
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      if (k < n) sum[k] += v[k] * load(weights, (o + k) * taps + tap);
    }
  });
  store8(y, g.at, n, sum);
}

// dx[p, c] = the sum over the windows that p lies in, and the outputs of c.
template <class T>
__global__ void depthwise_data_grad_kernel(Stored dx, Stored dy, const T* weights, Windows w,
                                           int64_t pixels) {
  const RowGroup g = row_group(pixels, w.groups);
  if (g.n == 0) return;
  const int64_t row = g.row, c = g.column, taps = w.taps();
  const int n = g.n;
  float sum[kGroup] = {}, v[kGroup];
  each_window(w, input_pixel(w, row), [&](int64_t tap, int64_t pixel) {
    const int64_t from = pixel * w.groups * w.o;
    for (int64_t m = 0; m < w.o; ++m) {
      if (w.o == 1) {
        load8(dy, from + c, n, v);
      } else {
#pragma unroll
        for (int k = 0; k < kGroup; ++k) {
          if (k < n) v[k] = load1(dy, from + (c + k) * w.o + m);
        }
      }
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        if (k < n) sum[k] += v[k] * load(weights, ((c + k) * w.o + m) * taps + tap);
      }
    }
  });
  store8(dx, g.at, n, sum);
}

// partial[chunk, o, tap] = the sum over the chunk's pixels of dy[.., o] x[tap's place, o / per].
// Neighbouring threads have neighbouring outputs.
template <class T>
__global__ void depthwise_weight_grad_kernel(float* partial, const T* x, const T* dy, Windows w,
                                             int64_t pixels, int64_t per_chunk) {
  const int64_t outputs = w.groups * w.o, taps = w.taps();
  const auto [chunk, t] = chunk_and_column(outputs * taps);
  if (t >= outputs * taps) return;
  const int64_t tap = divide(t, outputs), o = t - tap * outputs, c = divide(o, w.o);
  const int k2 = int(tap % w.axis[2].kernel), row = int(tap / w.axis[2].kernel);
  const int k1 = row % w.axis[1].kernel, k0 = row / w.axis[1].kernel;
  const int64_t begin = chunk * per_chunk;
  const int64_t end = begin + per_chunk < pixels ? begin + per_chunk : pixels;
  float sum = 0;
  for (int64_t i = begin; i < end; ++i) {
    const Pixel p = output_pixel(w, i);
    const int h = w.axis[0].place(p.at[0], k0), m = w.axis[1].place(p.at[1], k1);
    const int j = w.axis[2].place(p.at[2], k2);
    if (!w.axis[0].inside(h) || !w.axis[1].inside(m) || !w.axis[2].inside(j)) continue;
    sum += load(dy, i * outputs + o) * load(x, w.pixel_in(p.n, h, m, j) * w.groups + c);
  }
  partial[(chunk * outputs + o) * taps + tap] = sum;
}

int64_t pixels_of(const ConvStripes& s) { return s.lines * s.pixels; }
int64_t chunk_lines(const ConvStripes& s) { return blocks_of(s.lines, kChunks); }
int64_t chunk_count(const ConvStripes& s) { return blocks_of(s.lines, chunk_lines(s)); }
int64_t weights_of(const ConvStripes& s) { return s.groups * s.o * s.taps; }

void forward(const ConvStripes& s, const KernelArgs& a) {
  const int64_t outputs = s.groups * s.o;
  by_float_type(s.type, [&]<class T>(T) {
    launch(depthwise_kernel<T>, grid_of_groups(pixels_of(s) * groups_of(outputs)), a,
           stored(a.out[0], a.out_spec[0], outputs), stored(a.in[0], a.in_spec[0], outputs),
           a.input<T>(1), floats(input_if_present(a, 2), outputs), Windows(s), pixels_of(s));
  });
}

void data_grad(const ConvStripes& s, const KernelArgs& a) {
  const Windows w(s);
  const int64_t pixels = s.n * w.pixels_in();
  by_float_type(s.type, [&]<class T>(T) {
    launch(depthwise_data_grad_kernel<T>, grid_of_groups(pixels * groups_of(s.groups)), a,
           stored(a.out[0], a.out_spec[0], s.groups), stored(a.in[0], a.in_spec[0], s.groups),
           a.input<T>(1), w, pixels);
  });
}

void weight_grad(const ConvStripes& s, const KernelArgs& a) {
  float* partial = reinterpret_cast<float*>(a.workspace);
  const int64_t width = weights_of(s), chunks = chunk_count(s);
  by_float_type(s.type, [&]<class T>(T) {
    launch(depthwise_weight_grad_kernel<T>, {blocks_of(width, kColumnThreads) * chunks},
           kColumnThreads, a, partial, a.input<T>(0), a.input<T>(1), Windows(s), pixels_of(s),
           chunk_lines(s) * s.pixels);
  });
  sum_partials(a, floats(a.out[0], width), partial, chunks, width, width,
               floats(input_if_present(a, 2), width));
}

}  // namespace

int64_t depthwise_workspace(ConvKind kind, const ConvStripes& s) {
  return kind == ConvKind::weight_grad ? chunk_count(s) * weights_of(s) * int64_t(sizeof(float))
                                       : 0;
}

void run_depthwise(ConvKind kind, const ConvStripes& s, const KernelArgs& a) {
  switch (kind) {
    case ConvKind::forward: return forward(s, a);
    case ConvKind::data_grad: return data_grad(s, a);
    case ConvKind::weight_grad: return weight_grad(s, a);
  }
}

}  // namespace pal
