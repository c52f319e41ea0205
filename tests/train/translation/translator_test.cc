// Greedy and beam search with a model, ensembles, scoring: that words score as in the training
// loss, and that neighbours, batches and padding change nothing.
#include "train/translation/translator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "core/error.h"
#include "core/scalars.h"
#include "data/vocabulary.h"
#include "models/nmt.h"
#include "models/transformer.h"
#include "ops/losses/top_k.h"
#include "ops/tensors/transfers.h"
#include "train/loop/initialise.h"

namespace pal {
namespace {

TEST(Likeliest, obeys_the_rules) {
  const bool forbid = false, allow = true;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  auto best = [](std::vector<float> scores, bool unknown) { return likeliest(scores, unknown); };
  EXPECT_EQ(best({0, -1, 0, -9, -3, -2, -4}, forbid), 5);  // never <pad>, <unk>, <s>
  EXPECT_EQ(best({0, -1, 0, -9, -3, -2, -4}, allow), 1);
  EXPECT_EQ(best({0, -2, 0, -2, -2, -2, -2}, forbid), 3);  // ties: the lowest id
  EXPECT_EQ(best({0, -2, 0, -2, -2, -2, -2}, allow), 1);
  EXPECT_EQ(best({0, 0, 0, -7, -1, -2, -1}, forbid), 4);
  EXPECT_EQ(best({nan, nan, nan, nan, nan, nan}, allow), 3);
}

// From the best words as from all.
TEST(Likeliest, needs_the_best_words_alone) {
  uint32_t state = 3;
  const auto draw = [&](uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float none = -std::numeric_limits<float>::infinity();
  for (int run = 0; run < 2000; ++run) {
    std::vector<float> scores(4 + draw(8));
    for (float& score : scores) {
      const uint32_t kind = draw(12);
      score = kind == 0 ? nan : kind == 1 ? none : -float(draw(4));
    }
    std::vector<int32_t> words(scores.size());
    for (size_t i = 0; i < words.size(); ++i) words[i] = int32_t(i);
    std::sort(words.begin(), words.end(), [&](int32_t i, int32_t j) {
      return ranks_before(scores[size_t(i)], i, scores[size_t(j)], j);
    });
    words.resize(std::min<size_t>(words.size(), 5));
    std::vector<float> best;
    for (const int32_t word : words) best.push_back(scores[size_t(word)]);
    const BestWords row{best, words, {&scores[Vocabulary::kEnd], 1}};
    for (const bool unknown : {false, true}) {
      EXPECT_EQ(likeliest(row, unknown), likeliest(scores, unknown)) << run;
    }
  }
}

constexpr int64_t kSourceWords = 11, kTargetWords = 9;

NmtOptions small_nmt() {
  NmtOptions o;
  o.source_vocab = kSourceWords;
  o.target_vocab = kTargetWords;
  o.embedding = 6;
  o.hidden = 8;
  o.attention_size = 5;
  o.init_scale = 1.5f;  // so that scores differ
  return o;
}

TransformerOptions small_transformer() {
  return {.source_vocab = kSourceWords,
          .target_vocab = kTargetWords,
          .encoder_layers = 2,
          .decoder_layers = 2,
          .hidden = 8,
          .ffn = 12,
          .heads = 2};
}

// What is tested with every kind of model.
class Translators : public testing::TestWithParam<const char*> {
 protected:
  static TranslationModel model() {
    const std::string kind = GetParam();
    if (kind == "nmt") return nmt_model(small_nmt());
    if (kind == "nmt_reversed") {
      NmtOptions o = small_nmt();
      o.reverse_source = true;
      return nmt_model(o);
    }
    TransformerOptions o = small_transformer();
    if (kind == "transformer_pre") o.norm = TransformerOptions::Norm::pre, o.fused = false;
    return transformer_model(o);
  }
};

INSTANTIATE_TEST_SUITE_P(Models, Translators,
                         testing::Values("nmt", "nmt_reversed", "transformer", "transformer_pre"),
                         [](const auto& test) { return std::string(test.param); });

Program loss_program(const TranslationModel& model, const TranslationShape& shape) {
  Builder b;
  Val scalars = step_scalars(b.input(translation_input::kScalars, scalars_spec(), Space::host));
  b.output("nll", model.loss(b, shape, scalars, false).nll);
  return b.take();
}

std::unique_ptr<ProgramSet> drawn(const TranslationModel& model, uint64_t seed) {
  auto set = std::make_unique<ProgramSet>(CompileOptions{}, cpu_device(1));
  set->add("weights", loss_program(model, {1, 1, 1}));
  initialise(*set, seed);
  for (const StateTensor& slot : set->state()) {  // so that a Transformer's translations differ
    auto* data = reinterpret_cast<float*>(slot.data);
    if (slot.name.find("_attention/w") == std::string::npos) continue;
    for (int64_t i = 0; i < slot.spec.numel(); ++i) data[i] *= 3;
  }
  return set;
}

// Sentences of 1 to `longest` words, and an empty one.
std::vector<std::vector<int32_t>> sentences(int count, int longest) {
  std::vector<std::vector<int32_t>> all;
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> one;
    for (int j = 0; j < 1 + i * 5 % longest; ++j) {
      one.push_back(int32_t(4 + (i * 3 + j * (i + 2)) % (kSourceWords - 4)));
    }
    all.push_back(i == 2 ? std::vector<int32_t>{} : one);
  }
  return all;
}

TEST_P(Translators, scores_words_as_the_training_loss_does) {
  const TranslationModel model = this->model();
  const auto set = drawn(model, 3);
  const std::vector<int32_t> source = {4, 7, 5, 9, /**/ 6, 10, 8, 0};
  const std::vector<int32_t> lengths = {4, 3};
  std::vector<int32_t> time_major(8);
  for (size_t b = 0; b < 2; ++b) {
    for (size_t s = 0; s < 4; ++s) time_major[s * 2 + b] = source[b * 4 + s];
  }
  const std::vector<std::vector<int32_t>> target = {{5, 4, 8, 3}, {7, 3, 0, 0}};
  TranslationScorer scorer(*set, model, 2);
  scorer.start(4, time_major, lengths);
  std::vector<int32_t> words = {Vocabulary::kBegin, Vocabulary::kBegin}, in(8), out(8);
  double sum = 0;
  for (size_t t = 0; t < 4; ++t) {
    scorer.step(words);
    const float* scores = scorer.log_probs();
    for (size_t b = 0; b < 2; ++b) {
      in[t * 2 + b] = words[b], out[t * 2 + b] = target[b][t];
      double mass = 0;
      for (int64_t v = 0; v < kTargetWords; ++v) {
        mass += std::exp(double(scores[int64_t(b) * kTargetWords + v]));
      }
      EXPECT_NEAR(mass, 1, 1e-5);
      if (target[b][t] != 0) sum -= double(scores[int64_t(b) * kTargetWords + target[b][t]]);
      words[b] = target[b][t];
    }
  }
  Executable& loss = set->add("loss", loss_program(model, {4, 4, 2}));
  const StepScalars scalars;
  std::memcpy(loss.input(translation_input::kScalars), &scalars, sizeof scalars);
  std::memcpy(loss.input(translation_input::kSource), time_major.data(), 32);
  std::memcpy(loss.input(translation_input::kSourceLengths), lengths.data(), 8);
  std::memcpy(loss.input(translation_input::kTargetIn), in.data(), 32);
  std::memcpy(loss.input(translation_input::kTargetOut), out.data(), 32);
  loss.run();
  EXPECT_NEAR(sum, double(*loss.output("nll")), 1e-4 * sum);
  EXPECT_GT(sum, 1);
}

// Caches have room for the steps that start() was told of; a model without makes any number.
TEST_P(Translators, no_more_steps_than_the_caches_have_room_for) {
  const TranslationModel model = this->model();
  const auto set = drawn(model, 3);
  TranslationScorer scorer(*set, model, 1);
  const std::vector<int32_t> source{4, 7}, length{2}, word{Vocabulary::kBegin};
  scorer.start(2, source, length);
  const int64_t most = longest_translation(2) + 1;
  for (int64_t step = 0; step < most; ++step) scorer.step(word);
  if (model.caches.empty()) return scorer.step(word);
  try {
    scorer.step(word);
    FAIL() << "a step too many";
  } catch (const ProgramError& error) {
    const std::string says = "step " + std::to_string(most + 1) + " of at most " +
                             std::to_string(most) + ": start() was told of fewer";
    EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
  }
}

// Greedy search as its definition says, one sentence at a time.
std::vector<int32_t> by_hand(ProgramSet& set, const TranslationModel& model,
                             const std::vector<int32_t>& source) {
  std::vector<int32_t> out;
  if (source.empty()) return out;
  TranslationScorer scorer(set, model, 1);
  const std::vector<int32_t> length = {int32_t(source.size())};
  scorer.start(length[0], source, length);
  std::vector<int32_t> word = {Vocabulary::kBegin};
  while (out.size() < 2 * source.size() + 10) {
    scorer.step(word);
    word[0] = likeliest({scorer.log_probs(), size_t(model.target_vocab)}, false);
    if (word[0] == Vocabulary::kEnd) break;
    out.push_back(word[0]);
  }
  return out;
}

TEST_P(Translators, neighbours_batches_and_padding_change_nothing) {
  const TranslationModel model = this->model();
  const auto set = drawn(model, 5);
  const auto all = sentences(13, 9);
  const auto together = Translator(*set, model, 4, {3, 6}).greedy(all);
  ASSERT_EQ(together.size(), all.size());
  EXPECT_TRUE(together[2].empty());
  std::set<std::vector<int32_t>> different(together.begin(), together.end());
  EXPECT_GT(different.size(), 4u);  // or this test would show nothing
  Translator wide(*set, model, 16, {20});
  const auto padded = wide.greedy(all);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(by_hand(*set, model, all[i]), together[i]) << i;
    EXPECT_EQ(padded[i], together[i]) << i;
    EXPECT_LE(together[i].size(), 2 * all[i].size() + 10);
  }
}

TEST_P(Translators, a_beam_of_one_is_greedy_search) {
  const TranslationModel model = this->model();
  for (const uint64_t seed : {5, 6, 7}) {
    const auto set = drawn(model, seed);
    const auto all = sentences(13, 9);
    Translator translator(*set, model, 4, {3, 6});
    for (const bool unknown : {false, true}) {
      const auto greedy = translator.greedy(all, unknown);
      const auto beam = translator.beam(all, {.beam = 1, .allow_unknown = unknown});
      for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(beam[i][0].words, greedy[i]) << i;
    }
  }
}

TEST_P(Translators, beams_are_sorted_scored_truly_and_alone_among_neighbours) {
  const TranslationModel model = this->model();
  const auto set = drawn(model, 5);
  const auto all = sentences(13, 9);
  Translator translator(*set, model, 4, {3, 6});
  const BeamOptions options{.beam = 4, .length_penalty = 0.7, .n_best = 4};
  const auto best = translator.beam(all, options);
  const auto neighbours = Translator(*set, model, 16, {20}).beam(all, options);
  int different = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].empty()) {
      ASSERT_EQ(best[i].size(), 1u);
      EXPECT_TRUE(best[i][0].words.empty());
      continue;
    }
    ASSERT_EQ(best[i].size(), 4u);
    const std::vector<std::vector<int32_t>> one = {all[i]};
    const auto alone = translator.beam(one, options);
    for (size_t n = 0; n < 4; ++n) {
      const Hypothesis& h = best[i][n];
      EXPECT_EQ(alone[0][n].words, h.words);
      EXPECT_EQ(neighbours[i][n].words, h.words);
      EXPECT_NEAR(neighbours[i][n].score, h.score, 1e-5);
      EXPECT_NEAR(h.score, h.log_prob / std::pow(double(h.words.size() + 1), 0.7), 1e-12);
      const std::vector<std::vector<int32_t>> target = {h.words};
      EXPECT_NEAR(translator.score(one, target)[0], h.log_prob, 1e-4);
      EXPECT_GE(best[i][n > 0 ? n - 1 : 0].score, h.score);
    }
    different += best[i][0].words != best[i][1].words;
  }
  EXPECT_EQ(different, 12);
}

TEST_P(Translators, an_ensemble_averages_probabilities) {
  const TranslationModel model = this->model();
  const auto a = drawn(model, 5), same = drawn(model, 5), b = drawn(model, 6);
  const auto all = sentences(9, 7);
  const std::vector<std::vector<int32_t>> targets(9, {5, 6, 4});
  const BeamOptions options{.beam = 3, .n_best = 3};
  Translator single(*a, model, 4, {8}), other(*b, model, 4, {8});
  Translator twice({{a.get(), model, {8}}, {same.get(), model, {8}}}, 4);
  Translator both({{a.get(), model, {8}}, {b.get(), model, {8}}}, 4);
  const auto expected = single.beam(all, options), doubled = twice.beam(all, options);
  const auto mixed = both.beam(all, options);
  int differ = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t n = 0; n < expected[i].size(); ++n) {
      EXPECT_EQ(doubled[i][n].words, expected[i][n].words);
      EXPECT_EQ(doubled[i][n].score, expected[i][n].score);  // bit for bit
    }
    differ += mixed[i][0].words != expected[i][0].words;
  }
  EXPECT_GT(differ, 0);
  EXPECT_EQ(twice.score(all, targets), single.score(all, targets));
  // An empty target takes one step, so the average shows itself.
  const std::vector<std::vector<int32_t>> empty(9);
  const auto p = single.score(all, empty), q = other.score(all, empty), m = both.score(all, empty);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_NEAR(std::exp(m[i]), (std::exp(p[i]) + std::exp(q[i])) / 2, 1e-6);
  }
  const float none = -std::numeric_limits<float>::infinity();
  const std::vector<float> x = {none, 0, none}, y = {none, none, -1};
  std::vector<float> out(3);
  average_log_probs(std::vector<const float*>{x.data(), y.data()}, out);
  EXPECT_EQ(out[0], none);
  EXPECT_FLOAT_EQ(out[1], std::log(0.5f));
  EXPECT_FLOAT_EQ(out[2], -1 + std::log(0.5f));
}

TEST(Translator, every_sentence_ends) {
  const TranslationModel model = nmt_model(small_nmt());
  const auto set = drawn(model, 5);
  for (const StateTensor& slot : set->state()) {  // one word always wins
    auto* data = reinterpret_cast<float*>(slot.data);
    std::fill_n(data, slot.spec.numel(), 0.0f);
    if (slot.name == "output/bias") data[6] = 1;
  }
  const std::vector<std::vector<int32_t>> source = {{4}, {4, 5, 6}};
  const auto out = Translator(*set, model, 2, {3}).greedy(source);
  EXPECT_EQ(out[0], std::vector<int32_t>(12, 6));
  EXPECT_EQ(out[1], std::vector<int32_t>(16, 6));
}

TEST_P(Translators, compiles_a_bucket_for_what_is_longer_than_all) {
  const TranslationModel model = this->model();
  const auto set = drawn(model, 1);
  Translator translator(*set, model, 2, {3, 12});
  EXPECT_EQ(translator.rung(1), 3);
  EXPECT_EQ(translator.rung(4), 12);
  EXPECT_EQ(translator.rung(13), 20);
  EXPECT_EQ(translator.rung(20), 20);
  const std::vector<std::vector<int32_t>> source = {std::vector<int32_t>(23, 5)};
  translator.greedy(source);
  EXPECT_NE(set->find("encoder/30x2"), nullptr);
  EXPECT_NE(set->find(model.caches.empty() ? "decoder/30x2" : "decoder/30x2x71"), nullptr);
}

}  // namespace
}  // namespace pal
