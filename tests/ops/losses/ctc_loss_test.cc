// CTC against PyTorch (golden/make_ctc.py), against the sum over all alignments, and at its edges:
// no labels, no steps, no alignment, batches with padding.
#include "ops/losses/ctc_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "autograd/differentiate.h"
#include "core/error.h"
#include "core/scalars.h"
#include "tests/support/eval.h"

namespace pal::test {
namespace {

// As in make_ctc.py.
struct Lcg {
  uint64_t state;
  uint64_t bits() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 40;
  }
  int64_t below(int64_t n) { return int64_t(bits() % uint64_t(n)); }
  float unit() { return float(double(bits()) / 8388608 - 1); }
};

struct Sequence {
  int64_t steps = 0, width = 0;
  std::vector<float> logits;  // (steps, width)
  std::vector<int> labels;
};

struct Result {
  double loss = 0;
  std::vector<float> nll, gradient;  // (B), (T, B, V)
};

// The sequences side by side, `extra` more steps and labels than the longest has, garbage in what
// is padding.
Result run(const std::vector<Sequence>& batch, CtcAttrs attrs = {}, int64_t extra = 0,
           int threads = 1) {
  const int64_t B = int64_t(batch.size()), V = batch[0].width;
  int64_t T = 1, L = 1;
  for (const Sequence& s : batch) {
    T = std::max(T, s.steps), L = std::max(L, int64_t(s.labels.size()));
  }
  T += extra, L += extra;
  std::vector<float> logits(size_t(T * B * V), 7.5f), labels(size_t(L * B), -3), steps, lengths;
  for (int64_t b = 0; b < B; ++b) {
    const Sequence& s = batch[size_t(b)];
    for (int64_t t = 0; t < s.steps; ++t) {
      for (int64_t v = 0; v < V; ++v) {
        logits[size_t((t * B + b) * V + v)] = s.logits[size_t(t * V + v)];
      }
    }
    for (size_t i = 0; i < s.labels.size(); ++i)
      labels[i * size_t(B) + size_t(b)] = float(s.labels[i]);
    steps.push_back(float(s.steps)), lengths.push_back(float(s.labels.size()));
  }
  Builder b;
  Val x = b.input("logits", {{T, B, V}});
  Val scalars = b.input("scalars", scalars_spec());
  const CtcLoss ctc =
      ctc_loss({x, b.input("labels", {{L, B}, DType::i32}), b.input("steps", {{B}, DType::i32}),
                b.input("lengths", {{B}, DType::i32}), scalars},
               attrs);
  b.output("loss", ctc.loss), b.output("nll", ctc.nll);
  b.output("gradient", differentiate(b, ctc.loss, {x})[0]);
  Evaluator eval(b.take(), {.threads = threads});
  eval.set("logits", logits), eval.set("labels", labels);
  eval.set("steps", steps), eval.set("lengths", lengths);
  const StepScalars with{.tokens = 1};
  eval.set_bytes(eval.find("scalars"), std::as_bytes(std::span(&with, 1)));
  eval.run();
  return {double(eval.floats("loss")[0]), eval.floats("nll"), eval.floats("gradient")};
}

Sequence random_sequence(Lcg& draws, int64_t steps, int64_t width, int64_t length, float scale) {
  Sequence s{steps, width, {}, {}};
  for (int64_t i = 0; i < length; ++i) {
    const bool again = draws.below(3) == 0 && i > 0;
    s.labels.push_back(again ? s.labels.back() : int(1 + draws.below(width - 1)));
  }
  for (int64_t i = 0; i < steps * width; ++i) s.logits.push_back(scale * draws.unit());
  return s;
}

TEST(Ctc, IsPyTorchsOn500Cases) {
  std::ifstream in(PAL_SOURCE_DIR "/tests/ops/golden/ctc.json");
  const nlohmann::json golden = nlohmann::json::parse(in);
  ASSERT_EQ(golden.size(), 500u);
  int impossible = 0, empty = 0;
  for (size_t number = 0; number < golden.size(); ++number) {
    Lcg draws{number};
    draws.bits();
    const int64_t steps = 1 + draws.below(20), width = 2 + draws.below(7), length = draws.below(9);
    const float scale = std::vector<float>{1, 4, 16}[size_t(draws.below(3))];
    const Sequence s = random_sequence(draws, steps, width, length, scale);
    const Result got = run({s}), zeroed = run({s}, {.zero_infinity = true});
    const nlohmann::json& want = golden[number];
    empty += length == 0;
    if (want["loss"].is_null()) {
      ++impossible;
      EXPECT_TRUE(std::isinf(got.loss) && got.loss > 0) << number;
      EXPECT_TRUE(std::isnan(got.gradient[0])) << number;
      EXPECT_EQ(zeroed.loss, 0) << number;
      EXPECT_TRUE(std::isinf(zeroed.nll[0])) << number;
      for (float g : zeroed.gradient) EXPECT_EQ(g, 0) << number;
      continue;
    }
    const double loss = want["loss"];
    EXPECT_NEAR(got.loss, loss, 1e-6 * std::max(1.0, loss)) << number;
    EXPECT_EQ(zeroed.loss, got.loss) << number;
    for (const double sum : want["sums"]) {
      double own = 0;
      for (float g : got.gradient) own += double(g) * double(draws.unit());
      EXPECT_NEAR(own, sum, 2e-5) << number;
    }
  }
  EXPECT_GT(impossible, 50);
  EXPECT_GT(empty, 30);
}

// P by its definition: every way to choose a symbol at every step that spells the labels.
double by_enumeration(const Sequence& s) {
  double total = 0;
  std::vector<int> path(size_t(s.steps), 0);
  for (;;) {
    std::vector<int> spelled;
    double p = 1;
    for (int64_t t = 0; t < s.steps; ++t) {
      const int symbol = path[size_t(t)];
      if (symbol != 0 && (t == 0 || symbol != path[size_t(t - 1)])) spelled.push_back(symbol);
      double sum = 0;
      for (int64_t v = 0; v < s.width; ++v)
        sum += std::exp(double(s.logits[size_t(t * s.width + v)]));
      p *= std::exp(double(s.logits[size_t(t * s.width + symbol)])) / sum;
    }
    if (spelled == s.labels) total += p;
    size_t at = 0;
    while (at < path.size() && ++path[at] == s.width) path[at++] = 0;
    if (at == path.size()) return -std::log(total);
  }
}

TEST(Ctc, IsTheSumOverAllAlignments) {
  Lcg draws{12345};
  int finite = 0;
  for (int i = 0; i < 200; ++i) {
    const Sequence s =
        random_sequence(draws, 1 + draws.below(6), 2 + draws.below(3), draws.below(4), 2);
    const double want = by_enumeration(s), got = run({s}).loss;
    if (std::isinf(want)) {
      EXPECT_TRUE(std::isinf(got));
    } else {
      EXPECT_NEAR(got, want, 2e-6 * std::max(1.0, want));
      ++finite;
    }
  }
  EXPECT_GT(finite, 100);
}

// The same bits, whatever stands beside a sequence, however long the padding, however many threads.
TEST(Ctc, ASequenceOwesNothingToItsBatch) {
  Lcg draws{7};
  const std::vector<Sequence> batch = {random_sequence(draws, 9, 5, 3, 2),
                                       random_sequence(draws, 4, 5, 2, 2),
                                       random_sequence(draws, 12, 5, 0, 2),
                                       {.width = 5}};  // a row that only fills the batch
  const Result together = run(batch, {}, 3, 2);
  EXPECT_EQ(together.nll[3], 0);
  double sum = 0;
  for (size_t b = 0; b < 3; ++b) {
    const Result alone = run({batch[b]});
    EXPECT_EQ(alone.nll[0], together.nll[b]) << b;
    sum += double(alone.nll[0]);
    for (int64_t t = 0; t < 15; ++t) {
      for (int64_t v = 0; v < 5; ++v) {
        const float got = together.gradient[size_t((t * 4 + int64_t(b)) * 5 + v)];
        EXPECT_EQ(got, t < batch[b].steps ? alone.gradient[size_t(t * 5 + v)] : 0) << b << " " << t;
      }
    }
  }
  EXPECT_NEAR(together.loss, sum, 1e-5);
}

TEST(Ctc, NoStepsAreNoLabelsOrNothing) {
  EXPECT_EQ(run({{.width = 4}}).loss, 0);
  EXPECT_TRUE(std::isinf(run({{.width = 4, .labels = {1}}}).loss));
  const Result mixed = run({{.width = 4, .labels = {1}}, {.width = 4}}, {.zero_infinity = true});
  EXPECT_EQ(mixed.loss, 0);
}

TEST(Ctc, LongSequencesStayExact) {
  Lcg draws{3};
  const Sequence s = random_sequence(draws, 3000, 29, 400, 6);
  const Result got = run({s});
  EXPECT_TRUE(std::isfinite(got.loss));
  // In every step the probabilities and the posterior both add up to 1.
  for (int64_t t = 0; t < s.steps; t += 97) {
    double sum = 0;
    for (int64_t v = 0; v < s.width; ++v) sum += double(got.gradient[size_t(t * s.width + v)]);
    EXPECT_NEAR(sum, 0, 1e-5) << t;
  }
}

TEST(Ctc, NaNIsNotTakenForImpossible) {
  Lcg draws{5};
  Sequence s = random_sequence(draws, 6, 4, 2, 1);
  s.logits[9] = NAN;
  EXPECT_TRUE(std::isnan(run({s}, {.zero_infinity = true}).loss));
}

TEST(Ctc, RefusesLabelsThatCannotBe) {
  Lcg draws{5};
  Sequence s = random_sequence(draws, 6, 4, 2, 1);
  for (const int wrong : {0, 4, -1}) {
    s.labels[1] = wrong;
    EXPECT_THROW(run({s}), ProgramError) << wrong;
  }
}

TEST(Ctc, RefusesOperandsThatDoNotFit) {
  const TensorSpec lengths{{3}, DType::i32};
  const Specs right = {{{7, 3, 5}}, {{2, 3}, DType::i32}, lengths, lengths, scalars_spec()};
  EXPECT_EQ(infer_specs(ctc_loss_op, right, CtcAttrs{}).size(), 4u);
  const auto refused = [&](size_t operand, const TensorSpec& spec) {
    Specs in = right;
    in[operand] = spec;
    EXPECT_THROW(infer_specs(ctc_loss_op, in, CtcAttrs{}), ProgramError)
        << operand << " " << to_string(spec);
  };
  refused(0, {{7, 3}}), refused(0, {{7, 4, 5}}), refused(0, {{0, 3, 5}});
  refused(0, {{7, 3, 5}, DType::bf16});
  refused(1, {{2, 4}, DType::i32}), refused(1, {{0, 3}, DType::i32}), refused(1, {{2, 3}});
  refused(1, {{3}, DType::i32});
  for (const size_t of_lengths : {2, 3}) {
    refused(of_lengths, {{4}, DType::i32}), refused(of_lengths, {{3}});
  }
  refused(4, {{3}, DType::i32});
  for (const int64_t blank : {-1, 5}) {
    EXPECT_THROW(infer_specs(ctc_loss_op, right, CtcAttrs{.blank = blank}), ProgramError);
  }
}

// Probabilities of thousands of steps become as small as e^-12000: an error of each step's would be
// seen.
TEST(CtcLoss, IsAsExactOfManySteps) {
  const int64_t steps = 4000, width = 20;
  const std::vector<int> labels{3, 7, 7, 1, 12};
  Lcg random{5};
  Sequence sequence{steps, width, {}, labels};
  for (int64_t i = 0; i < steps * width; ++i) sequence.logits.push_back(random.unit());
  std::vector<int> states;  // blanks between
  for (const int label : labels) states.push_back(0), states.push_back(label);
  states.push_back(0);
  std::vector<double> alpha(states.size(), 0);  // beside e^-taken
  double taken = 0;
  for (int64_t t = 0; t < steps; ++t) {
    const float* x = sequence.logits.data() + t * width;
    double sum = 0;
    for (int64_t v = 0; v < width; ++v) sum += std::exp(double(x[v]));
    std::vector<double> next(states.size(), 0);
    for (size_t s = 0; s < states.size(); ++s) {
      double from = t == 0 ? double(s < 2) : alpha[s];
      if (t > 0 && s > 0) from += alpha[s - 1];
      if (t > 0 && s > 1 && states[s] != 0 && states[s] != states[s - 2]) from += alpha[s - 2];
      next[s] = from * std::exp(double(x[states[s]])) / sum;
    }
    double most = 0;
    for (const double each : next) most = std::max(most, each);
    for (double& each : next) each /= most;
    taken -= std::log(most), alpha = next;
  }
  const double want = taken - std::log(alpha.back() + alpha[alpha.size() - 2]);
  EXPECT_GT(want, 5000);
  EXPECT_NEAR(double(run({sequence}).nll[0]), want, 2e-3);
}

}  // namespace
}  // namespace pal::test
