// Convolutions cut into stripes, multiplied out as their products say, against plain loops: groups,
// dilation, films, lines that do not divide evenly, images that are their own windows.
#include "ops/libraries/conv_stripes.h"

#include <gtest/gtest.h>

#include "ops/libraries/lt_product.h"

namespace pal::test {
namespace {

using Doubles = std::vector<double>;

Doubles numbers(int64_t n, int seed) {
  Doubles out;
  for (int64_t i = 0; i < n; ++i) out.push_back(double((i * 7919 + seed * 104729) % 23 - 11));
  return out;
}

ConvAxis axis(int64_t in, int64_t kernel, int64_t stride = 1, int64_t before = 0, int64_t after = 0,
              int64_t dilation = 1) {
  const int64_t out = (in + before + after - dilation * (kernel - 1) - 1) / stride + 1;
  return {in, kernel, out, stride, before, after, dilation};
}

// f(window element, image element or -1) of a stripe's windows (groups, pixels, taps, c).
template <class F> void each_place(const ConvStripes& s, int64_t first_line, int64_t lines, F f) {
  const int64_t rows = lines * s.pixels;
  for (int64_t g = 0; g < s.groups; ++g) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t tap = 0; tap < s.taps; ++tap) {
        int64_t pixel = first_line * s.pixels + r, rest = tap, at = 0, scale = 1;
        bool inside = true;
        for (size_t i = 3; i-- > 0;) {
          const ConvAxis& a = s.axis[i];
          const int64_t place = pixel % a.out * a.stride - a.before + rest % a.kernel * a.dilation;
          inside &= place >= 0 && place < a.in;
          at += place * scale, scale *= a.in, pixel /= a.out, rest /= a.kernel;
        }
        at += pixel * scale;  // what is left is the image's number
        for (int64_t c = 0; c < s.c; ++c) {
          f(size_t(((g * rows + r) * s.taps + tap) * s.c + c),
            inside ? (at * s.groups + g) * s.c + c : -1);
        }
      }
    }
  }
}

// c += a b, from these places on.
void multiply(const ProductShape& p, const double* a, const double* b, double* c) {
  (void)lt_product(p);  // cuBLASLt can be told of it
  for (int64_t i = 0; i < p.batch; ++i)
    for (int64_t m = 0; m < p.m; ++m)
      for (int64_t n = 0; n < p.n; ++n)
        for (int64_t k = 0; k < p.k; ++k)
          c[i * p.c[0] + m * p.c[1] + n * p.c[2]] +=
              a[i * p.a[0] + m * p.a[1] + k * p.a[2]] * b[i * p.b[0] + k * p.b[1] + n * p.b[2]];
}

struct Results {
  Doubles y, dx, dw;
  bool operator==(const Results&) const = default;
};

// All three products of the stripes, from the same x, w and dy.
Results in_stripes(const ConvShape& shape, int64_t most_bytes, DType type) {
  const ConvStripes s = cut_into_stripes(shape, most_bytes, type);
  const Doubles x = numbers(shape.n * shape.pixels_in() * shape.c, 1);
  const Doubles w = numbers(shape.weights(), 2);
  const Doubles dy = numbers(shape.n * shape.pixels_out() * shape.o, 3);
  Results out{Doubles(dy.size()), Doubles(x.size()), Doubles(w.size())};
  for (int64_t line = 0, lines; line < s.lines; line += lines) {
    lines = s.lines_from(line);
    EXPECT_TRUE(lines == s.stripe || lines == s.last_lines());
    const int64_t y_at = line * s.pixels * shape.o;
    Doubles windows(size_t(lines * s.pixels * s.groups * s.taps * s.c)), dwindows(windows.size());
    each_place(s, line, lines, [&](size_t to, int64_t from) {
      if (from >= 0) windows.at(to) = x.at(size_t(from));
    });
    const int64_t x_at = line * s.pixels * shape.c;  // in place
    const double* given = s.in_place ? x.data() + x_at : windows.data();
    double* gradient = s.in_place ? out.dx.data() + x_at : dwindows.data();
    multiply(s.product(ConvKind::forward, lines), given, w.data(), out.y.data() + y_at);
    multiply(s.product(ConvKind::data_grad, lines), dy.data() + y_at, w.data(), gradient);
    multiply(s.product(ConvKind::weight_grad, lines), dy.data() + y_at, given, out.dw.data());
    if (s.in_place) continue;
    each_place(s, line, lines, [&](size_t from, int64_t to) {
      if (to >= 0) out.dx.at(size_t(to)) += dwindows.at(from);
    });
  }
  return out;
}

// The same by the definition: y[p, o] += x[place, c] w[o, tap, c].
Results by_loops(const ConvShape& shape) {
  const ConvStripes s = cut_into_stripes(shape, 1 << 30);
  const Doubles x = numbers(shape.n * shape.pixels_in() * shape.c, 1);
  const Doubles w = numbers(shape.weights(), 2);
  const Doubles dy = numbers(shape.n * shape.pixels_out() * shape.o, 3);
  Results out{Doubles(dy.size()), Doubles(x.size()), Doubles(w.size())};
  each_place(s, 0, s.lines, [&](size_t window, int64_t from) {
    if (from < 0) return;
    const int64_t columns = s.taps * s.c, column = int64_t(window) % columns;
    const int64_t row = int64_t(window) / columns, pixels = s.lines * s.pixels;
    for (int64_t o = row / pixels * s.o; o < (row / pixels + 1) * s.o; ++o) {
      const size_t y = size_t(row % pixels * shape.o + o), v = size_t(o * columns + column);
      out.y[y] += x[size_t(from)] * w[v];
      out.dx[size_t(from)] += dy[y] * w[v];
      out.dw[v] += dy[y] * x[size_t(from)];
    }
  });
  return out;
}

ConvShape shape_of(std::vector<ConvAxis> axes, int64_t n, int64_t c, int64_t o,
                   int64_t groups = 1) {
  ConvShape s{.axes = int(axes.size()), .n = n, .c = c, .o = o, .groups = groups};
  for (size_t i = 0; i < axes.size(); ++i) s.axis[i] = axes[i];
  return s;
}

const ConvShape kShapes[] = {
    shape_of({axis(5, 3, 1, 1, 1), axis(6, 3, 2, 1, 1)}, 3, 2, 4),
    shape_of({axis(7, 3, 1, 2, 0, 2), axis(8, 2, 3, 0, 1, 3)}, 2, 3, 1),
    shape_of({axis(6, 3, 2, 1, 1), axis(5, 3, 1, 1, 1)}, 2, 6, 9, 3),
    shape_of({axis(4, 1), axis(3, 1)}, 2, 5, 4),
    shape_of({axis(4, 1), axis(3, 1)}, 2, 4, 6, 2),
    shape_of({axis(4, 1, 2), axis(5, 1, 2)}, 2, 3, 2),
    shape_of({axis(3, 2, 1, 1, 1), axis(4, 3, 2, 2, 2), axis(5, 1, 2, 0, 0)}, 2, 2, 3),
};

TEST(ConvStripes, ProductsAreTheConvolution) {
  for (const ConvShape& shape : kShapes) {
    const Results want = by_loops(shape);
    for (const int64_t most : {1, 700, 2000, 1 << 20}) {
      for (const DType type : {DType::f32, DType::bf16}) {
        ConvShape biased = shape;
        biased.bias = true;
        EXPECT_TRUE(in_stripes(shape, most, type) == want && in_stripes(biased, most, type) == want)
            << "shape " << &shape - kShapes << " in " << most << " bytes, " << to_string(type);
      }
    }
  }
}

TEST(ConvStripes, WindowsStayWithinTheirBytes) {
  for (const ConvShape& shape : kShapes) {
    const int64_t lines = shape.n * shape.axis[0].out;
    for (const int64_t most : {1, 700, 2000, 5000, 1 << 20}) {
      const ConvStripes s = cut_into_stripes(shape, most);
      EXPECT_EQ(s.lines, lines);
      if (s.in_place) {
        EXPECT_EQ(s.window_floats(), 0);
        EXPECT_EQ(s.stripe, lines);
        continue;
      }
      EXPECT_TRUE(s.window_floats() * 4 <= most || s.stripe == 1);
      EXPECT_TRUE(s.whole_images() || s.stripe < s.axis[0].out);
      const int64_t all = lines * s.pixels * shape.c * s.taps;
      if (all * 4 <= most) {
        EXPECT_EQ(s.window_floats(), all);
      }
    }
  }
}

TEST(ConvStripes, SumsAreF32) {
  ConvShape shape = kShapes[2];
  shape.bias = true;
  for (const int64_t most : {1, 700, 1 << 20}) {
    const ConvStripes wide = cut_into_stripes(shape, most);
    const ConvStripes half = cut_into_stripes(shape, most, DType::bf16);
    for (const ConvKind kind : {ConvKind::forward, ConvKind::data_grad, ConvKind::weight_grad}) {
      EXPECT_EQ(wide.sum_floats(kind), 0);
      EXPECT_EQ(half.product(kind, 1).in, DType::bf16);
      EXPECT_EQ(half.product(kind, 1).out, DType::f32);
    }
    EXPECT_EQ(half.sum_floats(ConvKind::forward), half.stripe * half.pixels * shape.o);
    EXPECT_EQ(half.sum_floats(ConvKind::data_grad),
              half.whole_images() ? 0 : shape.pixels_in() * shape.c);
    EXPECT_EQ(half.sum_floats(ConvKind::weight_grad), 0);
  }
  shape.bias = false;
  EXPECT_EQ(cut_into_stripes(shape, 1, DType::f16).product(ConvKind::forward, 1).out, DType::f16);
}

TEST(ConvStripes, OneByOneNeedsNoWindows) {
  EXPECT_TRUE(cut_into_stripes(kShapes[3], 1).in_place);
  EXPECT_TRUE(cut_into_stripes(kShapes[4], 1).in_place);
  EXPECT_FALSE(cut_into_stripes(kShapes[5], 1).in_place);  // stride 2
  EXPECT_FALSE(cut_into_stripes(shape_of({axis(4, 1), axis(3, 1, 1, 0, 1)}, 1, 2, 2), 1).in_place);
}

// Rows of 3 x 3 x 5 elements end at 48, of the windows and of the product's dw; those that are
// multiples of eight, of groups or in place stay.
TEST(ConvStripes, PaddedRowsAreMultiplesOfEight) {
  ConvShape shape{.axes = 2, .axis = {axis(6, 3, 1, 1, 1), axis(7, 3, 1, 1, 1)}, .n = 2};
  const auto padded = [&](int64_t channels, int64_t groups) {
    shape.c = channels, shape.o = 4, shape.groups = groups;
    ConvStripes s = cut_into_stripes(shape, 1 << 20, DType::bf16);
    s.pad_rows();
    return s;
  };
  const ConvStripes s = padded(5, 1);
  EXPECT_TRUE(s.padded());
  EXPECT_EQ(s.row, 48);
  EXPECT_EQ(s.window_floats(), 2 * 6 * 7 * 48);
  EXPECT_EQ(s.sum_floats(ConvKind::weight_grad), 4 * 48);
  const ProductShape p = s.product(ConvKind::weight_grad, s.stripe);
  (void)lt_product(p);
  EXPECT_EQ(p.n, 48);
  EXPECT_EQ(p.b[1], 48);
  EXPECT_EQ(p.c[1], 48);
  EXPECT_FALSE(padded(8, 1).padded());
  EXPECT_FALSE(padded(6, 2).padded());
  EXPECT_EQ(padded(8, 1).sum_floats(ConvKind::weight_grad), 0);
  shape.axis = {axis(6, 1), axis(7, 1)};
  EXPECT_FALSE(padded(5, 1).padded());
}

}  // namespace
}  // namespace pal::test
