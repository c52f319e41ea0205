// Deep Speech 2: an utterance owes nothing to its padding and its neighbours, in recognition; and
// in training nothing to padding. As many weights as the recipe has.
#include "models/deepspeech2.h"

#include <gtest/gtest.h>

#include <random>

#include "autograd/differentiate.h"
#include "core/scalars.h"
#include "tests/support/eval.h"

namespace pal::test {
namespace {

namespace in = speech_input;

DeepSpeech2Options tiny(DeepSpeech2Options::Cell cell) {
  DeepSpeech2Options o;
  o.bins = 9, o.labels = 6, o.channels = 3, o.layers = 2, o.hidden = 5, o.cell = cell;
  o.conv_kernels = {"5x5", "3x3"}, o.conv_strides = {"2x2", "1x2"};
  return o;
}

std::vector<float> noise(int64_t n, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = std::uniform_real_distribution<float>(-1, 1)(rng);
  return out;
}

// Every weight from its name, statistics at their beginning.
void set_state(Evaluator& eval) {
  for (const StateSlot& slot : eval.program().state) {
    const int64_t n = eval.program().value(slot.start).spec.numel();
    std::vector<float> x = noise(n, unsigned(std::hash<std::string>()(slot.name)));
    if (slot.role == Role::statistic) x.assign(x.size(), slot.init.a);
    eval.set(slot.start, x);
  }
}

// Utterances (frames, bins) padded with zeros to F frames.
std::vector<float> padded(const std::vector<std::vector<float>>& utterances, int64_t F,
                          int64_t bins) {
  std::vector<float> out(utterances.size() * size_t(F * bins), 0.0f);
  for (size_t b = 0; b < utterances.size(); ++b) {
    std::copy(utterances[b].begin(), utterances[b].end(), out.begin() + int64_t(b) * F * bins);
  }
  return out;
}

class DeepSpeech2 : public testing::TestWithParam<DeepSpeech2Options::Cell> {};

TEST_P(DeepSpeech2, RecognisesAnUtteranceAlikeInAnyBatch) {
  const DeepSpeech2Options o = tiny(GetParam());
  const std::vector<int64_t> frames = {21, 8, 30};
  std::vector<std::vector<float>> utterances;
  for (size_t i = 0; i < frames.size(); ++i) {
    utterances.push_back(noise(frames[i] * o.bins, unsigned(i + 1)));
  }
  auto run = [&](const std::vector<size_t>& which, int64_t F) {
    const auto B = int64_t(which.size());
    Builder b;
    deepspeech2_recogniser(b, o, {F, 1, B});
    Evaluator eval(b.take());
    set_state(eval);
    std::vector<std::vector<float>> chosen;
    std::vector<float> steps;
    for (const size_t i : which) {
      chosen.push_back(utterances[i]);
      steps.push_back(float(output_steps(o, frames[i])));
    }
    eval.set(in::kFeatures, padded(chosen, F, o.bins));
    eval.set(in::kSteps, steps);
    eval.run();
    return eval.floats("log_probs");  // (T', B, labels)
  };
  const std::vector<float> together = run({0, 1, 2}, 37);
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<float> alone = run({i}, frames[i]);
    for (int64_t t = 0; t < output_steps(o, frames[i]); ++t) {
      for (int64_t v = 0; v < o.labels; ++v) {
        EXPECT_NEAR(together[size_t((t * 3 + int64_t(i)) * o.labels + v)],
                    alone[size_t(t * o.labels + v)], 1e-5)
            << "utterance " << i << " step " << t;
      }
    }
  }
}

TEST_P(DeepSpeech2, LearnsTheSameWithMorePadding) {
  const DeepSpeech2Options o = tiny(GetParam());
  const std::vector<std::vector<float>> utterances = {noise(21 * o.bins, 1), noise(8 * o.bins, 2)};
  auto run = [&](int64_t F, int64_t L) {
    Builder b;
    Val scalars = b.input("scalars", scalars_spec());
    const SpeechLoss loss = deepspeech2_loss(b, o, {F, L, 2}, scalars, true);
    b.output("loss", loss.loss);
    std::vector<Val> weights;
    for (const StateSlot& slot : b.program().state) {
      if (slot.role == Role::weight) weights.push_back({&b, slot.start});
    }
    const auto gradients = differentiate(b, loss.loss, weights);
    for (size_t i = 0; i < gradients.size(); ++i) b.output("g" + std::to_string(i), gradients[i]);
    for (size_t i = 0; i < loss.moved.size(); ++i) {
      b.output("m" + std::to_string(i), loss.moved[i].batch);
    }
    const size_t moved = loss.moved.size();
    Evaluator eval(b.take());
    set_state(eval);
    eval.set(in::kFeatures, padded(utterances, F, o.bins));
    eval.set(in::kSteps, {float(output_steps(o, 21)), float(output_steps(o, 8))});
    std::vector<float> labels(size_t(2 * L), 0);
    const std::vector<float> said = {1, 2, 2, 3, 5, 0};  // (3, 2); the second says two labels
    std::copy(said.begin(), said.end(), labels.begin());
    eval.set(in::kLabels, labels);
    eval.set(in::kLabelLengths, {3, 2});
    const StepScalars with{.tokens = 2};
    eval.set_bytes(eval.find("scalars"), std::as_bytes(std::span(&with, 1)));
    eval.run();
    std::vector<float> all = eval.floats("loss");
    for (const char* kind : {"g", "m"}) {
      for (size_t i = 0; i < (*kind == 'g' ? gradients.size() : moved); ++i) {
        const auto one = eval.floats(kind + std::to_string(i));
        all.insert(all.end(), one.begin(), one.end());
      }
    }
    return all;
  };
  const std::vector<float> tight = run(21, 3), wide = run(44, 7);
  ASSERT_EQ(tight.size(), wide.size());
  double size = 0;
  for (size_t i = 0; i < tight.size(); ++i) {
    EXPECT_NEAR(tight[i], wide[i], 2e-4 * std::max(1.0f, std::abs(tight[i]))) << i;
    size += std::abs(double(tight[i]));
  }
  EXPECT_GT(size, 10);  // they are not all 0
}

INSTANTIATE_TEST_SUITE_P(Cells, DeepSpeech2,
                         testing::Values(DeepSpeech2Options::Cell::gru,
                                         DeepSpeech2Options::Cell::lstm),
                         [](const auto& test) {
                           return test.param == DeepSpeech2Options::Cell::gru ? "Gru" : "Lstm";
                         });

TEST(DeepSpeech2Steps, AreThoseOfTheConvolutions) {
  const DeepSpeech2Options o;  // (11, 41)/(2, 2), (11, 21)/(1, 2)
  EXPECT_EQ(output_steps(o, 1600), 800);
  EXPECT_EQ(output_steps(o, 1601), 801);
  EXPECT_EQ(output_steps(o, 1), 1);
  EXPECT_EQ(output_steps(o, 0), 0);
}

// deepspeech.pytorch's V3: five bi-LSTM layers of 1,024, summed.
TEST(DeepSpeech2Weights, OfV3AreThoseOfItsLayers) {
  DeepSpeech2Options o;
  o.cell = DeepSpeech2Options::Cell::lstm, o.layers = 5, o.hidden = 1024;
  Builder b;
  deepspeech2_recogniser(b, o, {40, 1, 1});
  int64_t weights = 0;
  for (const StateSlot& slot : b.program().state) {
    if (slot.role == Role::weight) weights += b.program().value(slot.start).spec.numel();
  }
  const int64_t convolutions = 32 * 11 * 41 + 32 * 11 * 21 * 32 + 4 * 32;
  const int64_t first = 41 * 32, H = 1024;  // 161 bins -> 81 -> 41
  const int64_t recurrent =
      2 * (first * 4 * H + H * 4 * H + 4 * H) + 4 * 2 * (H * 4 * H + H * 4 * H + 4 * H);
  const int64_t norms = 5 * 2 * H;
  EXPECT_EQ(weights, convolutions + recurrent + norms + H * 29 + 29);
}

}  // namespace
}  // namespace pal::test
