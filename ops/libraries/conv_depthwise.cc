// dw[o, tap] = the sum over output pixels of dy[.., o] x[tap's place, o / multiplier]. Neighbouring
// lanes have neighbouring channels, as the images have. A line of pixels is summed in registers,
// and the lines' sums are added in order.
#include "ops/libraries/conv_depthwise.h"

#include <algorithm>

#include "ops/kernels/vectors.h"

namespace pal {
namespace {

using vectors::Floats;
using vectors::kWidth;
using vectors::load_floats;
using vectors::store_floats;

// The output pixels [begin, end) whose tap `k` lies inside the image.
struct Range {
  int64_t begin, end;
};
Range inside(const ConvAxis& a, int64_t k) {
  const int64_t first = a.before - k * a.dilation;  // of the image, seen from the tap
  const int64_t begin = first <= 0 ? 0 : (first + a.stride - 1) / a.stride;
  const int64_t last = a.in - 1 + first;
  const int64_t end = last < 0 ? 0 : std::min(a.out, last / a.stride + 1);
  return {begin, std::max(begin, end)};
}

// sum[c] += the sum over n pixels of dy[c] x[c], for V vectors of channels but the first `done`.
template <int V>
void add_line(float* sum, const float* x, const float* dy, int64_t x_step, int64_t dy_step,
              int64_t n, int64_t done = 0) {
  Floats line[V] = {};
  for (int64_t j = 0; j < n; ++j, x += x_step, dy += dy_step) {
    for (int v = 0; v < V; ++v) {
      line[v] += load_floats(dy + v * kWidth) * load_floats(x + v * kWidth);
    }
  }
  if (done > 0) {
    for (int64_t c = done; c < kWidth; ++c) sum[c] += line[0][c];
    return;
  }
  for (int v = 0; v < V; ++v) {
    store_floats(sum + v * kWidth, load_floats(sum + v * kWidth) + line[v]);
  }
}

// A line of the image and one of the gradient, both of `width` channels, a vector at least; sums
// (taps of a line), `step` apart.
void add_lines(const ConvAxis& a, int64_t width, const float* x, const float* dy, float* sums,
               int64_t step) {
  constexpr int kVectors = 4;
  auto each_tap = [&](int64_t c, auto add) {
    for (int64_t k = 0; k < a.kernel; ++k) {
      const Range r = inside(a, k);
      if (r.begin == r.end) continue;
      const int64_t place = r.begin * a.stride + k * a.dilation - a.before;
      add(sums + k * step + c, x + place * width + c, dy + r.begin * width + c, a.stride * width,
          width, r.end - r.begin);
    }
  };
  auto one = [](int64_t done) {
    return [done](float* sum, const float* from, const float* of, int64_t x_step, int64_t dy_step,
                  int64_t n) { add_line<1>(sum, from, of, x_step, dy_step, n, done); };
  };
  int64_t c = 0;
  for (; c + kVectors * kWidth <= width; c += kVectors * kWidth) {
    each_tap(c, [](auto... args) { add_line<kVectors>(args...); });
  }
  for (; c + kWidth <= width; c += kWidth) each_tap(c, one(0));
  if (c < width) each_tap(width - kWidth, one(c - (width - kWidth)));
}

// Two or three axes as three.
std::array<ConvAxis, 3> three_axes(const ConvShape& s) {
  std::array<ConvAxis, 3> axis;
  axis.fill({.in = 1, .kernel = 1, .out = 1});
  for (int i = 0; i < s.axes; ++i) axis[size_t(3 - s.axes + i)] = s.axis[size_t(i)];
  return axis;
}
int64_t taps_of(const std::array<ConvAxis, 3>& axis) {
  return axis[0].kernel * axis[1].kernel * axis[2].kernel;
}

// Channels of a line: those of x, and zeros up to a vector.
int64_t width_of(const ConvShape& s) { return std::max<int64_t>(s.c, kWidth); }

}  // namespace

bool needs_own_depthwise(ConvKind kind, const ConvShape& s, std::string_view implementation) {
  return kind == ConvKind::weight_grad && s.groups > 1 && s.groups == s.c &&
         implementation.find("_dw") == std::string_view::npos;
}

int64_t depthwise_scratch_bytes(const ConvShape& s) {
  const auto axis = three_axes(s);
  const int64_t multiplier = s.o / s.c;
  const int64_t lines = axis[2].in + multiplier * axis[2].out;
  return (taps_of(axis) * multiplier + lines) * width_of(s) * int64_t(sizeof(float));
}

void depthwise_weight_grad(const ConvShape& s, int64_t images, const float* x, const float* dy,
                           float* dw, std::byte* scratch) {
  const auto axis = three_axes(s);
  const auto &a0 = axis[0], &a1 = axis[1], &a2 = axis[2];
  const int64_t taps = taps_of(axis), multiplier = s.o / s.c, width = width_of(s);
  const int64_t step = multiplier * width;
  float* sums = reinterpret_cast<float*>(scratch);  // (taps, multiplier, width)
  float* x_line = sums + taps * step;               // (X, width)
  float* dy_line = x_line + a2.in * width;          // (multiplier, Y, width)
  std::fill(sums, dy_line + multiplier * a2.out * width, 0.0f);
  auto line_of_x = [&](int64_t n, int64_t h, int64_t m) {
    const float* line = x + ((n * a0.in + h) * a1.in + m) * a2.in * s.c;
    if (width == s.c) return line;
    for (int64_t i = 0; i < a2.in; ++i) std::copy_n(line + i * s.c, s.c, x_line + i * width);
    return static_cast<const float*>(x_line);
  };
  auto line_of_dy = [&] {
    if (multiplier == 1 && s.c == width) return dy;
    float* to = dy_line;
    for (int64_t m = 0; m < multiplier; ++m)
      for (int64_t i = 0; i < a2.out; ++i, to += width) {
        const float* from = dy + i * s.o + m;
        for (int64_t c = 0; c < s.c; ++c) to[c] = from[c * multiplier];
      }
    return static_cast<const float*>(dy_line);
  };
  for (int64_t n = 0; n < images; ++n)
    for (int64_t i = 0; i < a0.out; ++i)
      for (int64_t j = 0; j < a1.out; ++j, dy += a2.out * s.o) {
        const float* of_y = line_of_dy();
        for (int64_t k = 0; k < a0.kernel; ++k)
          for (int64_t l = 0; l < a1.kernel; ++l) {
            const int64_t h = i * a0.stride + k * a0.dilation - a0.before;
            const int64_t m = j * a1.stride + l * a1.dilation - a1.before;
            if (h < 0 || h >= a0.in || m < 0 || m >= a1.in) continue;
            const float* of_x = line_of_x(n, h, m);
            float* of_taps = sums + (k * a1.kernel + l) * a2.kernel * step;
            for (int64_t q = 0; q < multiplier; ++q) {
              add_lines(a2, width, of_x, of_y + q * a2.out * width, of_taps + q * width, step);
            }
          }
      }
  for (int64_t o = 0; o < s.o; ++o)
    for (int64_t tap = 0; tap < taps; ++tap) {
      dw[o * taps + tap] = sums[tap * step + o % multiplier * width + o / multiplier];
    }
}

}  // namespace pal
