// The LSTM cell against a double reference, fused against unfused, and ended sequences.
#include "ops/recurrent/lstm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "autograd/differentiate.h"
#include "core/error.h"
#include "ops/elementwise/add.h"
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

TEST(Lstm, MatchesADoubleReferenceWithGatesInTheOrderIFGO) {
  const int64_t B = 3, H = 37;
  Builder b;
  Val gates = b.input("gates", {Shape{B, 4 * H}}), c_prev = b.input("c", {Shape{B, H}});
  LstmState next = lstm_cell(gates, c_prev, 1.0f);
  b.output("h", next.h), b.output("c1", next.c);
  Evaluator eval(b.take());
  auto x = noise(size_t(B * 4 * H), 1), c = noise(size_t(B * H), 2);
  eval.set("gates", x), eval.set("c", c);
  eval.run();
  auto h1 = eval.floats("h"), c1 = eval.floats("c1");
  for (int64_t r = 0; r < B; ++r) {
    for (int64_t j = 0; j < H; ++j) {
      auto gate = [&](int64_t k) { return double(x[size_t((4 * r + k) * H + j)]); };
      const size_t at = size_t(r * H + j);
      const double cell = sigmoid64(gate(1) + 1) * c[at] + sigmoid64(gate(0)) * std::tanh(gate(2));
      EXPECT_NEAR(c1[at], cell, 2e-6);
      EXPECT_NEAR(h1[at], sigmoid64(gate(3)) * std::tanh(cell), 2e-6);
    }
  }
}

// Two steps with lengths 0, 1, 2; loss = sum of h2 * c2: values and gradients of the fused cell
// against those of elementary nodes.
std::vector<std::vector<float>> two_steps(bool fused) {
  const int64_t B = 3, H = 5;
  Builder b;
  Val g0 = b.input("g0", {Shape{B, 4 * H}}), g1 = b.input("g1", {Shape{B, 4 * H}});
  LstmState s{b.input("h", {Shape{B, H}}), b.input("c", {Shape{B, H}})};
  const LstmState start = s;
  Val lengths = b.input("lengths", {Shape{B}, DType::i32});
  for (int t = 0; t < 2; ++t) {
    s = fused ? lstm_cell(t ? g1 : g0, s, lengths, t)
              : lstm_cell_unfused(t ? g1 : g0, s, lengths, t);
  }
  Val loss = sum_all(add(mul(s.h, s.c), s.h));
  auto d = differentiate(b, loss, {g0, g1, start.h, start.c});
  b.output("h2", s.h), b.output("c2", s.c);
  for (int i = 0; i < 4; ++i) b.output("d" + std::to_string(i), d[size_t(i)]);
  Evaluator eval(b.take());
  eval.set("g0", noise(size_t(B * 4 * H), 1)), eval.set("g1", noise(size_t(B * 4 * H), 2));
  eval.set("h", noise(size_t(B * H), 3)), eval.set("c", noise(size_t(B * H), 4));
  eval.set("lengths", {0, 1, 2});
  eval.run();
  std::vector<std::vector<float>> out;
  for (auto* name : {"h2", "c2", "d0", "d1", "d2", "d3"}) out.push_back(eval.floats(name));
  return out;
}

TEST(Lstm, FusedAndUnfusedAgreeAndEndedSequencesKeepTheirState) {
  auto fused = two_steps(true), unfused = two_steps(false);
  for (size_t k = 0; k < fused.size(); ++k) {
    for (size_t i = 0; i < fused[k].size(); ++i) {
      EXPECT_NEAR(fused[k][i], unfused[k][i], 1e-5) << "output " << k << ", element " << i;
    }
  }
  auto h = noise(15, 3), c = noise(15, 4);
  for (size_t j = 0; j < 5; ++j) {  // row 0 has length 0
    EXPECT_EQ(fused[0][j], h[j]);
    EXPECT_EQ(fused[1][j], c[j]);
    EXPECT_EQ(fused[4][j], c[j] + 1) << "dh of the start goes through untouched";
    EXPECT_EQ(fused[5][j], h[j]);
  }
  for (size_t j = 20; j < 40; ++j)
    EXPECT_EQ(fused[3][j], 0) << "step 1 of row 1, length 1, is past";
  EXPECT_NE(fused[2][20], 0) << "step 0 of row 1 is not";
}

TEST(Lstm, SaysWhatDoesNotFit) {
  Builder b;
  Val gates = b.input("gates", {Shape{3, 20}}), c = b.input("c", {Shape{3, 6}});
  try {
    lstm_cell(gates, c);
    FAIL();
  } catch (const ProgramError& error) {
    EXPECT_NE(std::string(error.what()).find("[lstm_cell] f32[3,20], f32[3,6]"), std::string::npos)
        << error.what();
  }
}

// A sequence that has ended keeps its state: that takes both, the state and when it ends.
TEST(Lstm, TakesLengthsAndTheStateToKeepTogether) {
  const TensorSpec gates{{3, 24}}, state{{3, 6}}, lengths{{3}, DType::i32}, none;
  const auto cell = [&](const TensorSpec& h, const TensorSpec& l) {
    return infer_specs(lstm_cell_op, Specs{gates, state, h, l}, LstmAttrs{});
  };
  EXPECT_EQ(cell(none, none), (Specs{state, state}));
  EXPECT_EQ(cell(state, lengths), (Specs{state, state}));
  EXPECT_THROW(cell(state, none), ProgramError);
  EXPECT_THROW(cell(none, lengths), ProgramError);
}

}  // namespace
}  // namespace pal::test
