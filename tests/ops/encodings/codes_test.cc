// Kernels that read codes: any part of an encoded map, and the weight gradients of convolutions,
// against the decoded map.
#include "ops/encodings/codes.h"

#include <gtest/gtest.h>

#include <random>

#include "core/builder.h"
#include "core/error.h"
#include "core/text.h"
#include "ops/convolution/conv2d.h"
#include "ops/convolution/conv3d.h"
#include "ops/encodings/dpr.h"
#include "ops/encodings/ssdc.h"
#include "tests/ops/encodings/ssdc_kinds.h"
#include "tests/support/eval.h"
#include "tests/support/numbers.h"

namespace pal {
namespace {

using test::Evaluator;
using test::numbers;

struct Encoding {
  std::optional<Dpr> dpr;
  SsdcAttrs sparse;
};
std::vector<Encoding> encodings(int64_t elements) {
  std::vector<Encoding> all{{Dpr::fp16}, {Dpr::fp10}, {Dpr::fp8}};
  for (const SsdcForm form : kForms) {
    for (const SsdcValues values : kValues) all.push_back({{}, {form, elements * 2 / 3, values}});
  }
  return all;
}
Val encode(Val x, const Encoding& e) {
  return e.dpr ? dpr_encode(x, *e.dpr) : ssdc_encode(x, e.sparse).encoded;
}
Val decode(Val codes, const Encoding& e) { return e.dpr ? dpr_decode(codes) : ssdc_decode(codes); }

// Half of them zero.
std::vector<float> map_of(int64_t elements) {
  std::vector<float> x = numbers(elements, 1);
  for (size_t i = 0; i < x.size(); ++i) x[i] = i * 7 % 4 < 2 ? 0 : x[i];
  return x;
}

TEST(Codes, AnyPartIsThatOfTheWhole) {
  constexpr int64_t kElements = 3 * 256 * 17 + 131;
  for (const Encoding& e : encodings(kElements)) {
    for (const DType type : kTypes) {
      Builder b;
      Val x = b.input("x", {Shape{kElements}, type});
      Val codes = encode(x, e);
      b.output("codes", codes), b.output("y", decode(codes, e));
      const TensorSpec spec = codes.spec();
      ASSERT_TRUE(is_codes(spec));
      Evaluator eval(b.take());
      eval.set("x", map_of(kElements));
      eval.run();
      const std::vector<float> whole = eval.floats("y");
      const std::vector<std::byte> bytes = eval.bytes(eval.find("codes"));
      std::mt19937 rng(7);
      for (int i = 0; i < 200; ++i) {
        const int64_t begin = int64_t(rng() % kElements);
        const int64_t n = std::min<int64_t>(rng() % (i % 2 ? 8 : 6000), kElements - begin);
        std::vector<float> part(size_t(n) + 1, 77);
        read_codes(spec, bytes.data(), begin, begin + n, part.data());
        ASSERT_TRUE(std::equal(part.begin(), part.end() - 1, whole.begin() + begin))
            << join_parts(spec, " from ", begin, ", ", n);
        ASSERT_EQ(part.back(), 77) << join_parts(spec, " from ", begin, ", ", n);
      }
    }
  }
  EXPECT_FALSE(is_codes({Shape{3}}));
}

// The same weight gradient from codes, and from what they stand for.
void expect_same_gradient(const Shape& image, const Shape& of_y, const Conv2dAttrs& attrs,
                          DType type, bool with_sum) {
  for (const Encoding& e : encodings(image.numel())) {
    Builder b;
    Val x = b.input("x", {image, type}), dy = b.input("dy", {of_y, type});
    Val codes = encode(x, e);
    Val dense = conv2d_weight_grad(decode(codes, e), dy, attrs, Val{});
    Val sum = with_sum ? b.input("sum", dense.spec()) : Val{};
    Val again = with_sum ? conv2d_weight_grad(decode(codes, e), dy, attrs, sum) : dense;
    b.output("decoded", again);
    b.output("coded", conv2d_weight_grad(codes, dy, attrs, sum));
    const int64_t weights = dense.spec().numel();
    const Program p = b.take();
    for (const int threads : {1, 2, 3}) {
      KernelCache cache(cpu_device(threads));
      Evaluator eval(p, {.threads = threads, .cache = &cache});
      eval.set("x", map_of(image.numel()));
      eval.set("dy", numbers(of_y.numel(), 3));
      if (with_sum) eval.set("sum", numbers(weights, 4));
      eval.run();
      EXPECT_EQ(eval.bytes(eval.find("coded")), eval.bytes(eval.find("decoded")))
          << join_parts(codes.spec(), ", ", threads, " threads");
    }
  }
}

Conv2dAttrs of_kernel(Conv2dAttrs attrs, int64_t height, int64_t width) {
  attrs.height = height, attrs.width = width;
  return attrs;
}

TEST(Codes, AConvolutionsWeightGradientReadsThem) {
  for (const DType type : kTypes) {
    const auto same = of_kernel(conv2d_attrs(1, 1), 3, 3);
    expect_same_gradient({19, 9, 7, 16}, {19, 9, 7, 24}, same, type, false);
    expect_same_gradient({5, 9, 7, 5}, {5, 9, 7, 3}, same, type, true);
    const auto grouped = of_kernel(conv2d_attrs(1, 1, 4), 3, 3);
    expect_same_gradient({17, 6, 6, 16}, {17, 6, 6, 32}, grouped, type, false);
    // oneDNN has only its reference code for this one.
    const auto large = of_kernel(conv2d_attrs(1, 0), 11, 21);
    expect_same_gradient({4, 20, 30, 3}, {4, 10, 10, 8}, large, type, true);
  }
}

TEST(Codes, SoDoesAFilmsWeightGradient) {
  const Shape film{6, 4, 5, 5, 3};
  Conv3dAttrs attrs;
  attrs.depth = attrs.height = attrs.width = 2;
  for (const Encoding& e : encodings(film.numel())) {
    Builder b;
    Val codes = encode(b.input("x", {film}), e), dy = b.input("dy", {Shape{6, 3, 4, 4, 7}});
    b.output("decoded", b.emit1(conv3d_weight_grad_op, {decode(codes, e), dy, Val{}}, attrs));
    b.output("coded", b.emit1(conv3d_weight_grad_op, {codes, dy, Val{}}, attrs));
    Evaluator eval(b.take());
    eval.set("x", map_of(film.numel()));
    eval.set("dy", numbers(6 * 3 * 4 * 4 * 7, 3));
    eval.run();
    EXPECT_EQ(eval.floats("coded"), eval.floats("decoded"));
  }
}

// Each of these dy would fit, if only what it meets were an image.
TEST(Codes, AWeightGradientRefusesThemWhereTheyStandForNoImage) {
  const auto attrs = of_kernel(conv2d_attrs(1, 0), 3, 3);
  for (const Encoding& e : encodings(24 * 6 * 3)) {
    const auto gradient = [&](const Shape& shape, const Shape& dy) {
      Builder b;
      conv2d_weight_grad(encode(b.input("x", {shape}), e), b.input("dy", {dy}), attrs);
    };
    EXPECT_NO_THROW(gradient({4, 6, 6, 3}, {4, 4, 4, 5}));
    EXPECT_THROW(gradient({24, 6, 3}, {24, 4, 1, 5}), ProgramError);
    EXPECT_THROW(gradient({4, 6, 6, 3, 1}, {4, 4, 4, 5}), ProgramError);
  }
  TensorSpec image{{4, 6, 6, 3}}, dy{{4, 4, 4, 5}};
  EXPECT_NO_THROW(infer_specs(conv2d_weight_grad_op, Specs{image, dy, {}}, attrs));
  image.layout = std::make_shared<BlockedLayout>(BlockedLayout{"no encoding", image.bytes(), {}});
  EXPECT_THROW(infer_specs(conv2d_weight_grad_op, Specs{image, dy, {}}, attrs), ProgramError);
}

}  // namespace
}  // namespace pal
