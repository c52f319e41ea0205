// Max pooling's map, two places to a byte, against a plain loop: odd sizes, windows that overlap,
// padding, NaN, infinity, zeros of both signs, ties; and maxima that are nowhere.
#include "ops/convolution/max_pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/builder.h"
#include "core/error.h"
#include "ops/kernels/pooling.h"
#include "tests/support/eval.h"

namespace pal::test {
namespace {

using Floats = std::vector<float>;
constexpr float kInf = std::numeric_limits<float>::infinity();

// Few values, so that windows have ties; exact in 16 bits.
Floats awkward(int64_t n, uint32_t state) {
  const float values[] = {0.0f, -0.0f, 1, 1, 2, -1, -2, kInf, -kInf, NAN, 0.5f, -0.5f};
  Floats out;
  for (int64_t i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    out.push_back(values[(state >> 16) % std::size(values)]);
  }
  return out;
}

struct Plain {
  Floats y, map, dx;
};

// The definition, a window at a time.
Plain plainly(const Shape& x, const Floats& image, const Floats& dy, const MaxPoolAttrs& s) {
  const Shape out = pooled(x, s);
  Plain plain{.dx = Floats(size_t(x.numel()), 0)};
  for (int64_t at = 0; at < out.numel(); ++at) {
    const int64_t c = at % out[3], j = at / out[3] % out[2], i = at / out[3] / out[2] % out[1];
    const int64_t n = at / out[3] / out[2] / out[1];
    float best = 0;
    int64_t place = -1, pixel = -1;
    for (int64_t k = 0; k < s.kernel_h * s.kernel_w; ++k) {
      const int64_t h = i * s.stride_h - s.top + k / s.kernel_w;
      const int64_t w = j * s.stride_w - s.left + k % s.kernel_w;
      if (h < 0 || h >= x[1] || w < 0 || w >= x[2]) continue;
      const int64_t from = ((n * x[1] + h) * x[2] + w) * x[3] + c;
      const float v = image[size_t(from)];
      if (place >= 0 && !(v > best) && !(std::isnan(v) && !std::isnan(best))) continue;
      best = v, place = k, pixel = from;
    }
    const bool nowhere = s.positive && !(best > 0 && std::isfinite(best));
    plain.y.push_back(best), plain.map.push_back(nowhere ? 15.0f : float(place));
    if (!nowhere) plain.dx[size_t(pixel)] += dy[size_t(at)];
  }
  return plain;
}

void expect_same(const Floats& want, const Floats& got, const char* what) {
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    ASSERT_EQ(want[i], got[i]) << what << " " << i;
  }
}

void check(const Shape& shape, const MaxPoolAttrs& attrs, DType type, int threads) {
  Builder b;
  Val x = b.input("x", {shape, type});
  const MaxPool pool = max_pool(x, attrs);
  Val dy = b.input("dy", pool.y.spec());
  b.output("y", pool.y), b.output("map", pool.map);
  b.output("dx", b.emit1(max_pool_grad_op, {dy, pool.map}, for_image(attrs, shape[1], shape[2])));
  const int64_t n = pool.y.spec().numel();
  Evaluator eval(b.take(), {.threads = threads});
  const Floats image = awkward(shape.numel(), 7);
  Floats back;  // whole numbers: sums are exact in any order
  for (int64_t i = 0; i < n; ++i) back.push_back(float(i % 7) - 3);
  eval.set("x", image), eval.set("dy", back);
  eval.run();
  const Plain want = plainly(shape, image, back, attrs);
  expect_same(want.y, eval.floats("y"), "y");
  expect_same(want.map, eval.floats("map"), "map");
  expect_same(want.dx, eval.floats("dx"), "dx");
  const auto bytes = eval.bytes(eval.find("map"));
  if (attrs.kernel_h * attrs.kernel_w > 15) {
    EXPECT_EQ(int64_t(bytes.size()), n);
  } else {
    EXPECT_EQ(int64_t(bytes.size()), (n + 1) / 2);
    EXPECT_TRUE(n % 2 == 0 || int(bytes.back()) < 16) << "no element";
  }
}

TEST(MaxPool, MapsAsAPlainLoopMakesThem) {
  MaxPoolAttrs tall{5, 3, 2, 1, 4, 0, 1, 2};
  const std::vector<MaxPoolAttrs> windows = {max_pool_attrs(2, 2),    max_pool_attrs(3, 2),
                                             max_pool_attrs(3, 1, 1), max_pool_attrs(3, 2, 1),
                                             max_pool_attrs(1, 1),    max_pool_attrs(4, 2, 1),
                                             max_pool_attrs(1, 2),    tall};
  for (const Shape& shape : {Shape{1, 7, 9, 1}, Shape{3, 9, 7, 3}, Shape{2, 8, 11, 16},
                             Shape{1, 9, 6, 257}, Shape{7, 15, 17, 31}}) {
    for (MaxPoolAttrs attrs : windows) {
      for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
        for (const bool positive : {false, true}) {
          attrs.positive = positive && attrs.kernel_h * attrs.kernel_w <= 15;
          for (int threads : {1, 2, 3}) {
            SCOPED_TRACE(to_string(shape) + " " + Attrs(attrs).print() + " " + to_string(type) +
                         " " + std::to_string(threads));
            check(shape, attrs, type, threads);
            if (testing::Test::HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST(MaxPool, OnlySmallWindowsHaveACodeForNowhere) {
  Builder b;
  Val x = b.input("x", {{1, 16, 16, 2}});
  EXPECT_EQ(max_pool(x, {.kernel_h = 5, .kernel_w = 3}).map.spec().dtype, DType::u4);
  EXPECT_EQ(max_pool(x, {.kernel_h = 4, .kernel_w = 4}).map.spec().dtype, DType::u8);
  MaxPoolAttrs large = max_pool_attrs(4, 2);
  large.positive = true;
  EXPECT_THROW(max_pool(x, large), ProgramError);
}

// A comparison for every pixel of a window, whatever its shape.
TEST(MaxPool, CostsAnOperationForEachPixelOfAWindow) {
  const auto flops = [](int64_t height, int64_t width) {
    const MaxPoolAttrs attrs{.kernel_h = height, .kernel_w = width, .stride_h = 1, .stride_w = 1};
    const Specs in{{{2, 9, 9, 3}}};
    return cost_of(max_pool_op, in, infer_specs(max_pool_op, in, attrs), attrs).flops;
  };
  EXPECT_EQ(flops(1, 1), 2 * 9 * 9 * 3);
  EXPECT_EQ(flops(2, 3), 2 * 8 * 7 * 3 * 6);
  EXPECT_EQ(flops(3, 2), flops(2, 3));
}

}  // namespace
}  // namespace pal::test
