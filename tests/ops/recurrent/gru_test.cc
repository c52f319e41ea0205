// The GRU cell against a double reference, and fused against unfused over ended sequences.
#include "ops/recurrent/gru.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "autograd/differentiate.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/sums/reduce.h"
#include "tests/support/eval.h"

namespace pal::test {
namespace {

std::vector<float> noise(size_t n, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<float> out(n);
  for (float& x : out) x = std::uniform_real_distribution<float>(-2, 2)(rng);
  return out;
}
double sigmoid64(double x) { return 1 / (1 + std::exp(-x)); }

TEST(Gru, MatchesADoubleReferenceWithTheResetGateAfterTheProduct) {
  const int64_t B = 3, H = 37;
  Builder b;
  Val x = b.input("x", {{B, 3 * H}}), y = b.input("y", {{B, 3 * H}}), h = b.input("h", {{B, H}});
  b.output("next", gru_cell(x, y, h));
  Evaluator eval(b.take());
  const auto xs = noise(size_t(B * 3 * H), 1), ys = noise(size_t(B * 3 * H), 2),
             hs = noise(size_t(B * H), 3);
  eval.set("x", xs), eval.set("y", ys), eval.set("h", hs);
  eval.run();
  const auto next = eval.floats("next");
  for (int64_t r = 0; r < B; ++r) {
    for (int64_t j = 0; j < H; ++j) {
      auto at = [&](const std::vector<float>& v, int64_t k) {
        return double(v[size_t((3 * r + k) * H + j)]);
      };
      const double reset = sigmoid64(at(xs, 0) + at(ys, 0)), z = sigmoid64(at(xs, 1) + at(ys, 1));
      const double n = std::tanh(at(xs, 2) + reset * at(ys, 2));
      const double before = double(hs[size_t(r * H + j)]);
      EXPECT_NEAR(next[size_t(r * H + j)], (1 - z) * n + z * before, 2e-6);
    }
  }
}

// Two steps with lengths 0, 1, 2; loss = sum of h2 squared.
std::vector<std::vector<float>> two_steps(bool fused) {
  const int64_t B = 3, H = 5;
  Builder b;
  std::vector<Val> in;
  for (const char* name : {"x0", "y0", "x1", "y1"}) in.push_back(b.input(name, {{B, 3 * H}}));
  Val h = b.input("h", {{B, H}}), lengths = b.input("lengths", {{B}, DType::i32});
  in.push_back(h);
  for (int t = 0; t < 2; ++t) {
    Val x = in[size_t(2 * t)], y = in[size_t(2 * t + 1)];
    h = fused ? gru_cell(x, y, h, lengths, t) : gru_cell_unfused(x, y, h, lengths, t);
  }
  Val loss = sum_all(mul(h, h));
  b.output("h2", h);
  const auto g = differentiate(b, loss, in);
  for (size_t i = 0; i < g.size(); ++i) b.output("g" + std::to_string(i), g[i]);
  Evaluator eval(b.take());
  for (size_t i = 0; i < in.size(); ++i) {
    eval.set(in[i].id, noise(size_t(i < 4 ? B * 3 * H : B * H), unsigned(i + 1)));
  }
  eval.set("lengths", {0, 1, 2});
  eval.run();
  std::vector<std::vector<float>> out{eval.floats("h2")};
  for (size_t i = 0; i < g.size(); ++i) out.push_back(eval.floats("g" + std::to_string(i)));
  return out;
}

TEST(Gru, FusedAndUnfusedAgreeOverEndedSequences) {
  const auto fused = two_steps(true), unfused = two_steps(false);
  double size = 0;
  for (size_t i = 0; i < fused.size(); ++i) {
    ASSERT_EQ(fused[i].size(), unfused[i].size());
    for (size_t e = 0; e < fused[i].size(); ++e) {
      EXPECT_NEAR(fused[i][e], unfused[i][e], 3e-6) << i << " " << e;
      size += std::abs(double(fused[i][e]));
    }
  }
  EXPECT_GT(size, 10);
  const auto start = noise(15, 5);
  for (size_t e = 0; e < 5; ++e) EXPECT_EQ(fused[0][e], start[e]) << "a row of length 0 keeps h";
}

}  // namespace
}  // namespace pal::test
