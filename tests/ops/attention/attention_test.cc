// Attention's scores, context and softmaxes against plain loops in double.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "autograd/differentiate.h"
#include "ops/attention/attention_context.h"
#include "ops/attention/attention_score.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/losses/masked_softmax.h"
#include "ops/losses/softmax.h"
#include "ops/sums/reduce.h"
#include "ops/sums/scale_by.h"
#include "tests/support/eval.h"

namespace pal::test {
namespace {

constexpr int64_t S = 6, B = 5, A = 43;

std::vector<float> noise(int64_t n, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<float> out((size_t(n)));
  for (float& x : out) x = std::uniform_real_distribution<float>(-2, 2)(rng);
  return out;
}

TEST(Attention, MlpScoreIsBahdanaus) {
  Builder b;
  Val keys = b.input("k", {Shape{S, B, A}}), q = b.input("q", {Shape{B, A}});
  Val v = b.input("v", {Shape{A}});
  b.output("fused", mlp_score(keys, q, v)), b.output("unfused", mlp_score_unfused(keys, q, v));
  b.output("dot", dot_score(keys, q));
  Evaluator eval(b.take());
  auto ks = noise(S * B * A, 1), qs = noise(B * A, 2), vs = noise(A, 3);
  eval.set("k", ks), eval.set("q", qs), eval.set("v", vs);
  eval.run();
  for (int64_t row = 0; row < S * B; ++row) {
    double score = 0, dot = 0;
    for (int64_t a = 0; a < A; ++a) {
      const double k = ks[size_t(row * A + a)], query = qs[size_t(row % B * A + a)];
      score += vs[size_t(a)] * std::tanh(k + query), dot += k * query;
    }
    EXPECT_NEAR(eval.floats("fused")[size_t(row)], score, 1e-5);
    EXPECT_NEAR(eval.floats("unfused")[size_t(row)], score, 1e-5);
    EXPECT_NEAR(eval.floats("dot")[size_t(row)], dot, 3e-5);
  }
}

// Two decoder steps read the same keys and values: the second gradient is added to the first in the
// kernel, fused and unfused alike.
std::vector<std::vector<float>> two_steps(bool fused, int* adds = nullptr) {
  Builder b;
  Val keys = b.input("k", {Shape{S, B, A}}), v = b.input("v", {Shape{A}});
  Val lengths = b.input("lengths", {Shape{B}, DType::i32});
  Val q[2] = {b.input("q0", {Shape{B, A}}), b.input("q1", {Shape{B, A}})};
  Val loss;
  for (Val query : q) {
    Val score = fused ? mlp_score(keys, query, v) : mlp_score_unfused(keys, query, v);
    Val context = attention_context(masked_softmax(score, lengths), keys);
    Val part = sum_all(mul(context, query));
    loss = loss ? add(loss, part) : part;
  }
  const NodeId forward = b.program().node_count();
  auto d = differentiate(b, loss, {keys, v, q[0], q[1]});
  for (NodeId n = forward; adds && n < b.program().node_count(); ++n) {
    *adds += std::string(b.program().node(n).op->name) == "add" &&
             b.program().value(b.program().node(n).out[0]).spec.shape == keys.shape();
  }
  for (int i = 0; i < 4; ++i) b.output("d" + std::to_string(i), d[size_t(i)]);
  Evaluator eval(b.take());
  eval.set("k", noise(S * B * A, 1)), eval.set("v", noise(A, 3));
  eval.set("q0", noise(B * A, 2)), eval.set("q1", noise(B * A, 4));
  eval.set("lengths", {0, 1, 6, 9, 3});
  eval.run();
  std::vector<std::vector<float>> out;
  for (int i = 0; i < 4; ++i) out.push_back(eval.floats("d" + std::to_string(i)));
  return out;
}

TEST(Attention, FusedAndUnfusedGradientsAgreeOverTwoSteps) {
  int adds = 0;
  auto fused = two_steps(true, &adds), unfused = two_steps(false);
  EXPECT_EQ(adds, 0) << "all gradients of the keys are accumulated in place";
  for (size_t k = 0; k < fused.size(); ++k) {
    for (size_t i = 0; i < fused[k].size(); ++i) {
      EXPECT_NEAR(fused[k][i], unfused[k][i], 2e-5) << "gradient " << k << ", element " << i;
    }
  }
  // Column 1 has length 1: keys at s = 2 get nothing.
  for (int64_t a = 0; a < A; ++a) EXPECT_EQ(fused[0][size_t((2 * B + 1) * A + a)], 0);
}

TEST(Attention, PositionsOfWeightZeroAreNotRead) {
  Builder b;
  Val w = b.input("w", {Shape{2, 1}}), values = b.input("values", {Shape{2, 1, 3}});
  b.output("c", attention_context(w, values));
  Evaluator eval(b.take());
  eval.set("w", {0.5f, 0}), eval.set("values", {1, 2, 3, NAN, NAN, INFINITY});
  eval.run();
  EXPECT_EQ(eval.floats("c"), (std::vector<float>{0.5f, 1, 1.5f}));
}

TEST(MaskedSoftmax, SumsToOneOverTheLengthAndIsZeroBeyond) {
  Builder b;
  Val x = b.input("x", {Shape{4, 5}}), lengths = b.input("lengths", {Shape{5}, DType::i32});
  b.output("y", masked_softmax(x, lengths));
  Evaluator eval(b.take());
  auto xs = noise(20, 1);
  xs[3 * 5 + 2] = NAN;  // beyond the length of column 2
  xs[0] = 1000, xs[5] = 1000;
  xs[3 * 5] = 1e5f;  // beyond too: it must not become the maximum
  eval.set("x", xs), eval.set("lengths", {2, 0, 3, 4, -1});
  eval.run();
  auto y = eval.floats("y");
  const int64_t length[] = {2, 0, 3, 4, 0};
  for (int64_t c = 0; c < 5; ++c) {
    double total = 0;
    for (int64_t s = 0; s < length[c]; ++s) {
      total += std::exp(double(xs[size_t(s * 5 + c)]) - (c ? 0 : 1000));
    }
    for (int64_t s = 0; s < 4; ++s) {
      const double e = std::exp(double(xs[size_t(s * 5 + c)]) - (c ? 0 : 1000));
      if (s < length[c]) {
        EXPECT_NEAR(y[size_t(s * 5 + c)], e / total, 1e-6);
      } else {
        EXPECT_EQ(y[size_t(s * 5 + c)], 0);
      }
    }
  }
}

TEST(Softmax, LengthsGoToConsecutiveRowsAndCausalRowsSeeNoFuture) {
  Builder b;
  Val x = b.input("x", {Shape{2, 2, 3, 3}}), lengths = b.input("lengths", {Shape{2}, DType::i32});
  b.output("y", softmax(x, lengths, true));
  Evaluator eval(b.take());
  auto xs = noise(36, 1);
  eval.set("x", xs), eval.set("lengths", {2, 3});
  eval.run();
  auto y = eval.floats("y");
  for (int64_t row = 0; row < 12; ++row) {
    const int64_t limit = std::min<int64_t>(row / 6 == 0 ? 2 : 3, row % 3 + 1);
    double total = 0;
    for (int64_t c = 0; c < limit; ++c) total += std::exp(double(xs[size_t(row * 3 + c)]));
    for (int64_t c = 0; c < 3; ++c) {
      const double want = c < limit ? std::exp(double(xs[size_t(row * 3 + c)])) / total : 0;
      EXPECT_NEAR(y[size_t(row * 3 + c)], want, 1e-6) << row << "," << c;
    }
  }
}

TEST(ScaleBy, LearnsItsFactor) {
  Builder b;
  Val x = b.input("x", {Shape{3}}), g = b.input("g", {Shape{1}});
  auto d = differentiate(b, sum_all(scale_by(x, g)), {x, g});
  b.output("dx", d[0]), b.output("dg", d[1]);
  Evaluator eval(b.take());
  eval.set("x", {1, 2, 4}), eval.set("g", {3});
  eval.run();
  EXPECT_EQ(eval.floats("dx"), (std::vector<float>{3, 3, 3}));
  EXPECT_EQ(eval.floats("dg"), (std::vector<float>{7}));
}

}  // namespace
}  // namespace pal::test
