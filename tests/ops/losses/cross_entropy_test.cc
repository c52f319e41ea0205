// The loss against a double reference of PyTorch's CrossEntropyLoss(label_smoothing, ignore_index);
// layer norm, log-softmax and argmax against theirs.
#include "ops/losses/cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "autograd/differentiate.h"
#include "core/error.h"
#include "core/scalars.h"
#include "ops/losses/log_softmax.h"
#include "ops/norms/layer_norm.h"
#include "tests/support/eval.h"

namespace pal::test {
namespace {

std::vector<float> noise(int64_t n, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<float> out((size_t(n)));
  for (float& x : out) x = std::uniform_real_distribution<float>(-3, 3)(rng);
  return out;
}

struct Result {
  std::vector<float> loss, nll, lse, dx;
};
Result run(const std::vector<float>& x, const std::vector<float>& targets, int64_t V,
           CrossEntropyAttrs attrs, float tokens) {
  const int64_t N = int64_t(targets.size());
  Builder b;
  Val logits = b.input("x", {Shape{N, V}}), t = b.input("t", {Shape{N}, DType::i32});
  Val scalars = b.input("scalars", scalars_spec());
  CrossEntropy out = cross_entropy(logits, t, scalars, attrs);
  EXPECT_EQ(b.program().value(out.lse.id).role, Role::statistic);
  auto d = differentiate(b, out.loss, {logits});
  b.output("loss", out.loss), b.output("nll", out.nll), b.output("lse", out.lse);
  b.output("dx", d[0]);
  Evaluator eval(b.take(), {.threads = 2});
  eval.set("x", x), eval.set("t", targets);
  *eval.as<StepScalars>(eval.find("scalars")) = {.tokens = tokens};
  eval.run();
  return {eval.floats("loss"), eval.floats("nll"), eval.floats("lse"), eval.floats("dx")};
}

TEST(CrossEntropy, MatchesADoubleReference) {
  const int64_t N = 21, V = 1037;
  const double smoothing = 0.1;
  auto x = noise(N * V, 1);
  std::vector<float> targets;
  for (int64_t n = 0; n < N; ++n) targets.push_back(float(n % 4 == 3 ? 0 : (n * 97) % V));
  targets[1] = float(V - 1);
  Result r = run(x, targets, V, {float(smoothing), 0}, 14);
  double loss = 0, nll = 0;
  for (int64_t n = 0; n < N; ++n) {
    const float* row = x.data() + n * V;
    const int64_t t = int64_t(targets[size_t(n)]);
    double sum = 0, mean = 0;
    for (int64_t v = 0; v < V; ++v) sum += std::exp(double(row[v])), mean += row[v] / double(V);
    const double lse = std::log(sum);
    if (t != 0) {
      nll += lse - row[t];
      loss += (1 - smoothing) * (lse - row[t]) + smoothing * (lse - mean);
      EXPECT_NEAR(r.lse[size_t(n)], lse, 2e-6);
    } else {
      EXPECT_EQ(r.lse[size_t(n)], 0);
    }
    for (int64_t v = 0; v < V; ++v) {
      const double p = std::exp(row[v] - lse);
      const double d = (p - smoothing / double(V) - (v == t ? 1 - smoothing : 0)) / 14;
      EXPECT_NEAR(r.dx[size_t(n * V + v)], t != 0 ? d : 0, 1e-7) << n << "," << v;
    }
  }
  EXPECT_NEAR(r.loss[0], loss / 14, 1e-5);
  EXPECT_NEAR(r.nll[0], nll, 1e-4);
}

TEST(CrossEntropy, IgnoresNothingWhereIgnoreIsNegative) {
  Result r = run({0, 0, 0, 0}, {0, 1}, 2, {0, -1}, 2);
  EXPECT_NEAR(r.loss[0], std::log(2.0), 1e-6);
  EXPECT_NEAR(r.nll[0], 2 * std::log(2.0), 1e-6);
}

TEST(CrossEntropy, ATargetOutsideTheVocabularyMakesTheLossNaN) {
  for (float target : {5.0f, -1.0f}) {
    Result r = run({0, 0, 0, 0, 0, 1, 2, 3, 4, 5}, {1, target}, 5, {0.1f, 0}, 2);
    EXPECT_TRUE(std::isnan(r.loss[0])) << target;
    EXPECT_TRUE(std::isnan(r.dx[5])) << target;
    EXPECT_FALSE(std::isnan(r.dx[0])) << target;
  }
}

TEST(CrossEntropy, HoldsForLargeLogits) {
  Result r = run({1000, 900, -1000, 1e30f, 0, 0}, {1, 1}, 3, {0, 0}, 1);
  EXPECT_NEAR(r.lse[0], 1000, 1e-3);
  EXPECT_NEAR(r.dx[0], 1, 1e-6);
  EXPECT_NEAR(r.dx[1], -1, 1e-6);
}

// A whole number for each row of floats; so says the gradient, too.
TEST(CrossEntropy, RefusesWhatIsNoTargetForEachRow) {
  const auto takes = [](const TensorSpec& logits, const TensorSpec& targets) {
    const auto accepts = [](const OpDef& op, const Specs& in) {
      try {
        infer_specs(op, in, CrossEntropyAttrs{});
      } catch (const ProgramError&) {
        return false;
      }
      return true;
    };
    const TensorSpec lse{targets.shape}, scalars = scalars_spec();
    const bool loss = accepts(cross_entropy_op, {logits, targets, scalars});
    EXPECT_EQ(accepts(cross_entropy_grad_op, {{{1}}, logits, lse, targets, scalars}), loss);
    return loss;
  };
  const TensorSpec logits{{3, 5}}, targets{{3}, DType::i32};
  EXPECT_TRUE(takes(logits, targets));
  EXPECT_TRUE(takes({{3, 5}, DType::bf16}, targets));
  for (const DType type : {DType::f32, DType::bf16, DType::u8, DType::bit}) {
    EXPECT_FALSE(takes(logits, {{3}, type})) << to_string(type);
  }
  EXPECT_FALSE(takes(logits, {{4}, DType::i32}));
  EXPECT_FALSE(takes(logits, {{3, 1}, DType::i32}));
  EXPECT_FALSE(takes({{3, 5}, DType::i32}, targets));
  EXPECT_FALSE(takes({{3, 5, 1}}, targets));
  EXPECT_FALSE(takes({{3, 0}}, targets));
}

TEST(LogSoftmaxAndArgmax, MatchPlainLoops) {
  Builder b;
  Val x = b.input("x", {Shape{3, 70}});
  b.output("y", log_softmax(x)), b.output("best", argmax_rows(x));
  Evaluator eval(b.take());
  auto xs = noise(210, 1);
  xs[20] = 6.5f, xs[33] = xs[60] = 7;                            // equals: the first
  for (int64_t c = 70; c < 140; ++c) xs[size_t(c)] = -INFINITY;  // all alike
  xs[140 + 69] = 9;
  eval.set("x", xs);
  eval.run();
  EXPECT_EQ(eval.floats("best"), (std::vector<float>{33, 0, 69}));
  for (int64_t r : {0, 2}) {
    double sum = 0;
    for (int64_t c = 0; c < 70; ++c) sum += std::exp(double(xs[size_t(r * 70 + c)]));
    for (int64_t c = 0; c < 70; ++c) {
      EXPECT_NEAR(eval.floats("y")[size_t(r * 70 + c)], xs[size_t(r * 70 + c)] - std::log(sum),
                  3e-6);
    }
  }
}

TEST(LayerNorm, MatchesADoubleReferenceAndRowsOfAConstant) {
  const int64_t R = 3, C = 45;
  Builder b;
  Val x = b.input("x", {Shape{R, C}});
  Val y = layer_norm(x, b.input("gamma", {Shape{C}}), b.input("beta", {Shape{C}}), 1e-3f);
  b.output("y", y);
  Evaluator eval(b.take());
  auto xs = noise(R * C, 1), gamma = noise(C, 2), beta = noise(C, 3);
  for (int64_t c = 0; c < C; ++c) xs[size_t(C + c)] = 100 + 0.1f * xs[size_t(C + c)];  // far from 0
  for (int64_t c = 0; c < C; ++c) xs[size_t(2 * C + c)] = 3;
  eval.set("x", xs), eval.set("gamma", gamma), eval.set("beta", beta);
  eval.run();
  for (int64_t r = 0; r < R; ++r) {
    double mean = 0, var = 0;
    for (int64_t c = 0; c < C; ++c) mean += xs[size_t(r * C + c)] / double(C);
    for (int64_t c = 0; c < C; ++c) var += std::pow(xs[size_t(r * C + c)] - mean, 2) / double(C);
    for (int64_t c = 0; c < C; ++c) {
      const double n = (xs[size_t(r * C + c)] - mean) / std::sqrt(var + 1e-3);
      const double want = n * gamma[size_t(c)] + beta[size_t(c)];
      EXPECT_NEAR(eval.floats("y")[size_t(r * C + c)], want, r == 1 ? 2e-3 : 5e-6);
    }
  }
}

}  // namespace
}  // namespace pal::test
