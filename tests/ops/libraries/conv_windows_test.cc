// ConvWindows against plain loops in double: strides, zeros around, dilation, three axes, and
// stripes and blocks that do not divide evenly; and ConvKernel where it turns to them.
#include "ops/libraries/conv_windows.h"

#include <gtest/gtest.h>

#include "core/builder.h"
#include "ops/convolution/conv2d.h"
#include "ops/libraries/conv_kernel.h"
#include "tests/support/eval.h"
#include "tests/support/numbers.h"

namespace pal {
namespace {

using test::numbers;
using Floats = std::vector<float>;

ConvAxis axis(int64_t in, int64_t kernel, int64_t stride, int64_t before, int64_t after,
              int64_t dilation = 1) {
  const int64_t out = (in + before + after - dilation * (kernel - 1) - 1) / stride + 1;
  return {in, kernel, out, stride, before, after, dilation};
}

// Calls f(index into x, w, y) for every product of the convolution.
template <class F> void for_each_product(const ConvShape& s, F f) {
  ConvAxis a[3];  // missing ones, outermost, have one element
  for (int i = 0; i < 3; ++i)
    a[i] = i < 3 - s.axes ? axis(1, 1, 1, 0, 0) : s.axis[size_t(i - 3 + s.axes)];
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t y = 0; y < s.pixels_out(); ++y)
      for (int64_t k = 0; k < a[0].kernel * a[1].kernel * a[2].kernel; ++k) {
        int64_t pixel = 0, rest_y = y, rest_k = k, scale = 1;
        bool inside = true;
        for (int i = 2; i >= 0; --i) {
          const int64_t at =
              rest_y % a[i].out * a[i].stride - a[i].before + rest_k % a[i].kernel * a[i].dilation;
          inside = inside && at >= 0 && at < a[i].in;
          pixel += at * scale;
          scale *= a[i].in, rest_y /= a[i].out, rest_k /= a[i].kernel;
        }
        if (!inside) continue;
        const int64_t taps = s.weights() / s.o / s.c;
        for (int64_t o = 0; o < s.o; ++o)
          for (int64_t c = 0; c < s.c; ++c)
            f(size_t((n * s.pixels_in() + pixel) * s.c + c), size_t((o * taps + k) * s.c + c),
              size_t((n * s.pixels_out() + y) * s.o + o));
      }
}

void expect_near(const Floats& got, const std::vector<double>& want, const char* what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-3) << what << " " << i;
}

Floats windows(ConvKind kind, const ConvShape& s, const Floats& a, const Floats& b, int64_t out) {
  const ConvWindows engine(kind, s);
  std::vector<std::byte> scratch(size_t(engine.scratch_bytes()), std::byte{0xff});
  Floats result(size_t(out), 5.0f);
  engine.run(s.n, a.data(), b.data(), result.data(), scratch.data());
  return result;
}

struct Gradients {
  std::vector<double> dx, dw;
};

Gradients gradients(const ConvShape& s, const Floats& x, const Floats& w, const Floats& dy) {
  Gradients g{std::vector<double>(x.size()), std::vector<double>(w.size())};
  for_each_product(s, [&](size_t i, size_t k, size_t j) {
    g.dx[i] += double(dy[j]) * double(w[k]), g.dw[k] += double(dy[j]) * double(x[i]);
  });
  return g;
}

void check(const ConvShape& s) {
  const int64_t nx = s.n * s.pixels_in() * s.c, ny = s.n * s.pixels_out() * s.o;
  const Floats x = numbers(nx, 1), w = numbers(s.weights(), 2), dy = numbers(ny, 3);
  const Gradients want = gradients(s, x, w, dy);
  expect_near(windows(ConvKind::data_grad, s, dy, w, nx), want.dx, "dx");
  expect_near(windows(ConvKind::weight_grad, s, x, dy, s.weights()), want.dw, "dw");
}

TEST(ConvWindows, StripesAndBlocksThatDoNotDivideEvenly) {
  ConvShape s{.axes = 2, .n = 2, .c = 8, .o = 3};
  s.axis = {axis(25, 11, 1, 5, 5), axis(27, 5, 1, 2, 3)};
  check(s);
}

TEST(ConvWindows, StridesDilationAndUnevenZeros) {
  ConvShape s{.axes = 2, .n = 3, .c = 3, .o = 4};
  s.axis = {axis(17, 4, 2, 3, 1, 2), axis(13, 5, 3, 7, 0, 3)};
  check(s);
  s.axis = {axis(9, 3, 1, 0, 0), axis(4, 9, 2, 12, 9)};  // windows wholly outside
  check(s);
}

TEST(ConvWindows, OneAndThreeAxes) {
  ConvShape s{.axes = 3, .n = 2, .c = 2, .o = 5};
  s.axis = {axis(5, 3, 2, 1, 1), axis(6, 2, 1, 0, 1), axis(7, 3, 2, 1, 2, 2)};
  check(s);
  s.axes = 1, s.axis = {axis(40, 7, 3, 2, 2)};
  check(s);
}

// Deep Speech 2's second convolution on a second of speech. oneDNN has only its reference code for
// these gradients with AVX-512; elsewhere this may test kernels of its own.
TEST(ConvWindows, GradientsOfLargeKernelsHaveTheSameBitsForAnyThreads) {
  ConvShape s{.axes = 2, .n = 2, .c = 32, .o = 4};
  s.axis = {axis(50, 11, 1, 5, 5), axis(81, 21, 2, 10, 10)};
  Conv2dAttrs attrs{.stride_h = 1, .stride_w = 2, .top = 5, .left = 10, .bottom = 5, .right = 10};
  Builder builder;
  Val x = builder.input("x", {{s.n, 50, 81, s.c}}), w = builder.input("w", {{s.o, 11, 21, s.c}});
  Val dy = builder.input("dy", conv2d(x, w, attrs).spec());
  Conv2dAttrs image = attrs, kernel = attrs;
  image.height = 50, image.width = 81, kernel.height = 11, kernel.width = 21;
  builder.output("dx", conv2d_data_grad(dy, w, image));
  builder.output("dw", conv2d_weight_grad(x, dy, kernel));
  const Program program = builder.take();
  const auto given = [&](const char* name, int seed) {
    return numbers(program.value(program.input(name)).spec.numel(), seed);
  };
  auto results = [&](int threads) {
    test::Evaluator eval(program, {.threads = threads});
    eval.set("x", given("x", 1)), eval.set("w", given("w", 2)), eval.set("dy", given("dy", 3));
    eval.run();
    return std::pair{eval.floats("dx"), eval.floats("dw")};
  };
  const auto once = results(1);
  for (int threads : {2, 4}) EXPECT_EQ(once, results(threads));
  const Gradients want = gradients(s, given("x", 1), given("w", 2), given("dy", 3));
  expect_near(once.first, want.dx, "dx");
  expect_near(once.second, want.dw, "dw");
}

// One partial result a chunk of images, but of large weights no more than two.
TEST(ConvKernel, WeightGradientsHaveFewPartialResults) {
  for (const auto& [channels, most] : {std::pair(16, 8), std::pair(1024, 2)}) {
    ConvShape s{.axes = 2, .n = 64, .c = channels, .o = channels};
    s.axis = {axis(4, 3, 1, 1, 1), axis(4, 3, 1, 1, 1)};
    const ConvKernel kernel(cpu_device(1), ConvKind::weight_grad, s, {{channels, 3, 3, channels}});
    EXPECT_GE(kernel.workspace(), most * s.weights() * 4) << channels;
    if (most == 2) {
      EXPECT_LT(kernel.workspace(), 7 * s.weights() * 4);  // with what the library takes beside
    }
  }
}

}  // namespace
}  // namespace pal
