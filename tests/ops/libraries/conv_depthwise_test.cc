// Depthwise weight gradients: our kernel against plain loops in double over random shapes, where it
// is chosen, the bits for any number of threads, and the workspace.
#include "ops/libraries/conv_depthwise.h"

#include <gtest/gtest.h>

#include <random>

#include "core/builder.h"
#include "core/prepare.h"
#include "ops/convolution/conv2d.h"
#include "ops/libraries/conv_kernel.h"
#include "tests/support/eval.h"
#include "tests/support/numbers.h"

namespace pal {
namespace {

using test::numbers;
using Floats = std::vector<float>;

// Shapes with at least one output pixel, of `axes` axes.
ConvShape random_depthwise(std::mt19937& random, int axes) {
  const auto from = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  ConvShape s{.axes = axes, .n = from(1, 4)};
  s.c = s.groups = from(2, 90), s.o = s.c * from(1, 3);
  for (int i = 0; i < axes; ++i) {
    ConvAxis& a = s.axis[size_t(i)];
    a = {.in = from(1, 9), .kernel = from(1, 5), .stride = from(1, 3), .dilation = from(1, 3)};
    const int64_t reach = (a.kernel - 1) * a.dilation + 1;
    a.before = from(0, reach - 1), a.after = from(0, reach - 1);
    if (a.in + a.before + a.after < reach) a.in = reach;
    a.out = (a.in + a.before + a.after - reach) / a.stride + 1;
  }
  return s;
}

std::vector<double> loops(const ConvShape& s, const Floats& x, const Floats& dy) {
  const int64_t taps = s.weights() / s.o;
  std::vector<double> dw(size_t(s.weights()));
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t y = 0; y < s.pixels_out(); ++y)
      for (int64_t k = 0; k < taps; ++k) {
        int64_t pixel = 0, rest_y = y, rest_k = k, scale = 1;
        bool inside = true;
        for (int i = s.axes - 1; i >= 0; --i) {
          const ConvAxis& a = s.axis[size_t(i)];
          const int64_t at = rest_y % a.out * a.stride - a.before + rest_k % a.kernel * a.dilation;
          inside = inside && at >= 0 && at < a.in;
          pixel += at * scale, scale *= a.in, rest_y /= a.out, rest_k /= a.kernel;
        }
        if (!inside) continue;
        for (int64_t o = 0; o < s.o; ++o) {
          dw[size_t(o * taps + k)] +=
              double(dy[size_t((n * s.pixels_out() + y) * s.o + o)]) *
              double(x[size_t((n * s.pixels_in() + pixel) * s.c + o / (s.o / s.c))]);
        }
      }
  return dw;
}

TEST(ConvDepthwise, WeightGradientsOfRandomShapesAgreeWithLoops) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    const ConvShape s = random_depthwise(random, 1 + trial % 3);
    const Floats x = numbers(s.n * s.pixels_in() * s.c, 1);
    const Floats dy = numbers(s.n * s.pixels_out() * s.o, 2);
    std::vector<std::byte> scratch(size_t(depthwise_scratch_bytes(s)), std::byte{0xff});
    Floats dw(size_t(s.weights()), 5.0f);
    depthwise_weight_grad(s, s.n, x.data(), dy.data(), dw.data(), scratch.data());
    const std::vector<double> want = loops(s, x, dy);
    for (size_t i = 0; i < dw.size(); ++i) {
      ASSERT_NEAR(dw[i], want[i], 2e-4) << "trial " << trial << ", weight " << i;
    }
  }
}

TEST(ConvDepthwise, TakesThePlaceOfKernelsThatAreNotDepthwise) {
  const ConvShape s{.c = 20, .o = 40, .groups = 20};
  EXPECT_TRUE(needs_own_depthwise(ConvKind::weight_grad, s, "jit:avx512_core"));
  EXPECT_TRUE(needs_own_depthwise(ConvKind::weight_grad, s, "x64:gemm:jit"));
  EXPECT_FALSE(needs_own_depthwise(ConvKind::weight_grad, s, "jit_dw:avx512_core"));
  EXPECT_FALSE(needs_own_depthwise(ConvKind::data_grad, s, "jit:avx512_core"));
  const ConvShape grouped{.c = 20, .o = 20, .groups = 10}, whole{.c = 1, .o = 20, .groups = 1};
  EXPECT_FALSE(needs_own_depthwise(ConvKind::weight_grad, grouped, "jit:avx512_core"));
  EXPECT_FALSE(needs_own_depthwise(ConvKind::weight_grad, whole, "jit:avx512_core"));
}

struct Case {
  Shape image;
  int64_t kernel, stride, multiplier, dilation;
};
// The first is of MobileNetV2 on images of 64 x 64; the others of kinds that oneDNN does not have.
const Case kCases[] = {{{8, 2, 2, 480}, 3, 1, 1, 1},
                       {{9, 7, 9, 96}, 5, 2, 1, 1},
                       {{3, 8, 6, 24}, 3, 1, 2, 1},
                       {{5, 9, 9, 40}, 3, 1, 1, 2}};

Program weight_gradient(const Case& c, bool sum) {
  const int64_t pad = (c.kernel - 1) * c.dilation / 2, channels = c.image.back();
  Conv2dAttrs attrs = conv2d_attrs(c.stride, pad, channels);
  attrs.dilation_h = attrs.dilation_w = c.dilation;
  Builder builder;
  Conv2dAttrs of_weights = attrs;
  of_weights.height = of_weights.width = c.kernel;
  Val x = builder.input("x", {c.image});
  const Shape weights{channels * c.multiplier, c.kernel, c.kernel, 1};
  Val w = builder.input("w", {weights});
  Val dy = builder.input("dy", conv2d(x, w, attrs).spec());
  const Val before = sum ? builder.input("sum", {weights}) : Val{};
  builder.output("dw", conv2d_weight_grad(x, dy, of_weights, before));
  return builder.take();
}

TEST(ConvDepthwise, BitsAreTheSameForAnyThreads) {
  for (const Case& c : kCases)
    for (const bool sum : {false, true}) {
      const Program program = weight_gradient(c, sum);
      auto result = [&](int threads) {
        test::Evaluator eval(program, {.threads = threads});
        int seed = 1;
        for (const char* name : {"x", "w", "dy", "sum"}) {
          if (!sum && name == std::string("sum")) break;
          eval.set(name, numbers(program.value(program.input(name)).spec.numel(), seed++));
        }
        eval.run();
        return eval.floats("dw");
      };
      const Floats once = result(1);
      for (const int threads : {2, 3, 7}) EXPECT_EQ(once, result(threads)) << c.image[1];
    }
}

// oneDNN's kernels of 16 x 16 channels a group would take 256 floats a weight and chunk.
TEST(ConvDepthwise, TheWorkspaceIsAFewWeightGradients) {
  for (const Case& c : kCases) {
    const Program program = weight_gradient(c, false);
    KernelCache cache(cpu_device(2));
    const Node& node = program.nodes.back();
    ASSERT_EQ(node.op, &conv2d_weight_grad_op);
    const int64_t weights = program.value(node.out[0]).spec.bytes();
    EXPECT_LE(cache.get(program, node)->prepared.workspace, 20 * weights) << c.image[1];
  }
}

}  // namespace
}  // namespace pal
