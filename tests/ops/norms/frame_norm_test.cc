// Batch norm over valid frames: against the plain one, independent of padding, stable far from
// zero.
#include "ops/norms/frame_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "autograd/differentiate.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/norms/batch_norm.h"
#include "ops/sums/reduce.h"
#include "tests/support/eval.h"

namespace pal::test {
namespace {

std::vector<float> noise(int64_t n, unsigned seed, float shift = 0) {
  std::mt19937 rng(seed);
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = shift + std::uniform_real_distribution<float>(-2, 2)(rng);
  return out;
}

// y, mean, rstd, variance, and the gradients of x, gamma, beta for a loss of random weights.
using Results = std::vector<std::vector<float>>;
Results run(const Shape& shape, const std::vector<float>& x, const std::vector<float>* lengths,
            const std::vector<float>& cotangent, bool batch_first = false) {
  Builder b;
  const int64_t C = shape.back();
  Val in = b.input("x", {shape}), gamma = b.input("gamma", {{C}}), beta = b.input("beta", {{C}});
  std::vector<Val> out;
  if (lengths) {
    Val l = b.input("lengths", {{int64_t(lengths->size())}, DType::i32});
    const FrameNorm n = frame_norm(in, gamma, beta, l, {.batch_first = batch_first});
    out = {n.y, n.mean, n.rstd, n.variance};
  } else {
    const BatchNorm n = batch_norm(in, gamma, beta);
    out = {n.y, n.mean, n.rstd, n.variance};
  }
  Val loss = sum_all(mul(out[0], b.input("cotangent", {shape})));
  for (Val g : differentiate(b, loss, {in, gamma, beta})) out.push_back(g);
  for (size_t i = 0; i < out.size(); ++i) b.output(std::to_string(i), out[i]);
  Evaluator eval(b.take());
  eval.set("x", x), eval.set("gamma", noise(C, 8)), eval.set("beta", noise(C, 9));
  eval.set("cotangent", cotangent);
  if (lengths) eval.set("lengths", *lengths);
  eval.run();
  Results results;
  for (size_t i = 0; i < out.size(); ++i) results.push_back(eval.floats(std::to_string(i)));
  return results;
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << i;
}

TEST(FrameNorm, OfFullSequencesIsBatchNorm) {
  const Shape shape{7, 3, 2, 19};
  const auto x = noise(shape.numel(), 1), c = noise(shape.numel(), 2);
  const std::vector<float> full{7, 7, 7}, full_first(7, 3);
  const Results want = run(shape, x, nullptr, c);
  const Results time_major = run(shape, x, &full, c),
                batch_major = run(shape, x, &full_first, c, true);
  for (size_t i = 0; i < want.size(); ++i) {
    expect_near(time_major[i], want[i], 2e-5);
    expect_near(batch_major[i], want[i], 2e-5);
  }
}

// The valid frames of (T, B, C) are those of one long sequence.
TEST(FrameNorm, SeesNothingOfThePadding) {
  const int64_t T = 5, B = 3, C = 6;
  const std::vector<float> lengths{5, 0, 2};
  const auto x = noise(T * B * C, 1, 300), c = noise(T * B * C, 2);
  std::vector<float> packed, packed_c;
  std::vector<size_t> from;
  for (int64_t t = 0; t < T; ++t) {
    for (int64_t b = 0; b < B; ++b) {
      if (float(t) >= lengths[size_t(b)]) continue;
      for (int64_t k = 0; k < C; ++k) {
        const size_t at = size_t((t * B + b) * C + k);
        packed.push_back(x[at]), packed_c.push_back(c[at]), from.push_back(at);
      }
    }
  }
  const Results got = run({T, B, C}, x, &lengths, c);
  const Results want = run({int64_t(packed.size()) / C, C}, packed, nullptr, packed_c);
  for (size_t i : {0, 4}) {  // y and the gradient of x
    std::vector<float> rest = got[i];
    for (size_t k = 0; k < from.size(); ++k) {
      EXPECT_NEAR(got[i][from[k]], want[i][k], 2e-4) << i << " " << k;
      rest[from[k]] = 0;
    }
    for (float r : rest) EXPECT_EQ(r, 0);
  }
  for (size_t i : {1, 2, 3, 5, 6}) expect_near(got[i], want[i], 2e-4);
}

TEST(FrameNorm, OfNoFrameIsZero) {
  const std::vector<float> none{0, 0};
  const auto x = noise(3 * 2 * 4, 1);
  for (const auto& result : run({3, 2, 4}, x, &none, x)) {
    for (float v : result) EXPECT_TRUE(std::isfinite(v));
  }
}

TEST(FrameNorm, WithGivenStatistics) {
  Builder b;
  Val x = b.input("x", {{2, 2, 3}});
  std::vector<Val> v;
  for (const char* name : {"gamma", "beta", "mean", "variance"}) v.push_back(b.input(name, {{3}}));
  Val lengths = b.input("lengths", {{2}, DType::i32});
  b.output("y", frame_norm_infer(x, v[0], v[1], lengths, v[2], v[3], {.eps = 0}));
  Evaluator eval(b.take());
  eval.set("x", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  eval.set("gamma", {1, 2, 3}), eval.set("beta", {0, 1, 0});
  eval.set("mean", {1, 0, 3}), eval.set("variance", {4, 4, 9}), eval.set("lengths", {2, 1});
  eval.run();
  EXPECT_EQ(eval.floats("y"), (std::vector<float>{0, 3, 0, 1.5f, 6, 3, 3, 9, 6, 0, 0, 0}));
}

}  // namespace
}  // namespace pal::test
