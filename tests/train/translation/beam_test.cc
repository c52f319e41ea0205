// Beam search alone, against a table of probabilities: exhaustive search, greedy search, order,
// ties, the moment it stops.
#include "train/translation/beam.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "core/error.h"
#include "data/vocabulary.h"
#include "train/translation/scorer.h"

namespace pal {
namespace {

constexpr int32_t kEnd = Vocabulary::kEnd;
constexpr size_t kVocabulary = 7;  // the specials and 4, 5, 6
using WordIds = std::vector<int32_t>;
using TableOfWords =
    std::function<std::vector<float>(const WordIds&)>;  // log probabilities after a prefix

// Made-up log probabilities, normalised over the words that may be chosen and <unk>.
TableOfWords table(uint32_t seed, float spread) {
  return [=](const WordIds& prefix) {
    uint32_t state = seed * 2654435761u + 12345;
    for (const int32_t word : prefix) state = (state ^ static_cast<uint32_t>(word)) * 2246822519u;
    std::vector<float> scores(kVocabulary);
    double sum = 0;
    for (float& score : scores) {
      state = state * 1664525u + 1013904223u;
      score = spread * static_cast<float>(state >> 8) / static_cast<float>(1 << 24);
      sum += std::exp(static_cast<double>(score));
    }
    for (float& score : scores) score -= static_cast<float>(std::log(sum));
    return scores;
  };
}

// Runs the search as a translator would: a row is the prefix that its words have made.
std::vector<Hypothesis> search(const TableOfWords& model, const BeamOptions& options,
                               int64_t longest, int* steps = nullptr) {
  Beam beam(options, longest);
  std::vector<WordIds> rows(static_cast<size_t>(options.beam));
  for (bool first = true; !beam.done(); first = false) {
    if (!first) {
      std::vector<WordIds> next;
      for (size_t k = 0; k < rows.size(); ++k) {
        next.push_back(rows[static_cast<size_t>(beam.parents()[k])]);
        next.back().push_back(beam.words()[k]);
      }
      rows = next;
    }
    std::vector<float> scores;
    for (const WordIds& row : rows) {
      const std::vector<float> own = model(row);
      scores.insert(scores.end(), own.begin(), own.end());
    }
    beam.advance(scores);
    if (steps) ++*steps;
  }
  return beam.best();
}

// The k best of a row of scores, as the operator top_k gives them.
std::vector<int32_t> best_words(std::span<const float> scores, size_t k) {
  std::vector<int32_t> words(scores.size());
  for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<int32_t>(i);
  std::stable_sort(words.begin(), words.end(), [&](int32_t a, int32_t b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  words.resize(k);
  return words;
}

double log_prob_of(const TableOfWords& model, const WordIds& words) {
  double sum = 0;
  WordIds prefix;
  for (const int32_t word : words) {
    sum += static_cast<double>(model(prefix)[static_cast<size_t>(word)]);
    prefix.push_back(word);
  }
  return sum + static_cast<double>(model(prefix)[kEnd]);
}

// Every sequence of at most `longest` words, best first.
std::vector<Hypothesis> everything(const TableOfWords& model, const BeamOptions& options,
                                   int64_t longest) {
  std::vector<Hypothesis> all;
  std::vector<WordIds> prefixes = {{}};
  for (int64_t n = 0; n <= longest; ++n) {
    std::vector<WordIds> longer;
    for (const WordIds& prefix : prefixes) {
      const double log_prob = log_prob_of(model, prefix);
      all.push_back({prefix, log_prob,
                     log_prob / std::pow(static_cast<double>(n + 1), options.length_penalty)});
      for (int32_t word = options.allow_unknown ? 1 : 4; word < 7; ++word) {
        if (word == 2 || word == 3) continue;
        longer.push_back(prefix);
        longer.back().push_back(word);
      }
    }
    prefixes = longer;
  }
  std::sort(all.begin(), all.end(),
            [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  return all;
}

TEST(Beam, wide_enough_is_exhaustive_search) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    for (const double penalty : {0.0, 0.6, 1.0}) {
      for (const bool unknown : {false, true}) {
        const TableOfWords model = table(seed, 4);
        // 4^0 + ... + 4^3 = 85 sequences: none ever falls off, and they never all have ended early.
        const BeamOptions options{100, penalty, 10, unknown};
        const auto all = everything(model, options, 3);
        const auto best = search(model, options, 3);
        ASSERT_EQ(best.size(), 10u);
        for (size_t i = 0; i < best.size(); ++i) {
          EXPECT_EQ(best[i].words, all[i].words) << seed << " " << penalty << " " << i;
          EXPECT_DOUBLE_EQ(best[i].log_prob, all[i].log_prob);
          EXPECT_DOUBLE_EQ(best[i].score, all[i].score);
        }
      }
    }
  }
}

// Without a length penalty the search may stop as soon as nothing can get better. It must not stop
// before: the same search that is made to go on to the end finds nothing better.
TEST(Beam, stops_early_and_never_too_early) {
  int short_steps = 0, long_steps = 0, better = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const TableOfWords model = table(seed, 5);
    const auto stopping = search(model, {4, 0, 1}, 8, &short_steps);
    const auto all_four = search(model, {4, 0, 4}, 8, &long_steps);
    EXPECT_EQ(stopping[0].words, all_four[0].words) << seed;
    EXPECT_EQ(stopping[0].score, all_four[0].score);
    const auto greedy = search(model, {1, 0, 1}, 8);
    better += stopping[0].score > greedy[0].score;
  }
  EXPECT_LT(short_steps, long_steps * 3 / 4);
  EXPECT_GT(better, 20);  // or a beam would show nothing
}

TEST(Beam, of_one_is_greedy_search) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const TableOfWords model = table(seed, 3);
    WordIds words;
    while (words.size() < 6) {
      const std::vector<float> scores = model(words);
      const auto best = std::max_element(scores.begin() + kEnd, scores.end()) - scores.begin();
      if (best == kEnd) break;
      words.push_back(static_cast<int32_t>(best));
    }
    for (const double penalty : {0.0, 1.0}) {
      const auto found = search(model, {1, penalty, 1}, 6);
      ASSERT_EQ(found.size(), 1u);
      EXPECT_EQ(found[0].words, words);
      EXPECT_DOUBLE_EQ(found[0].log_prob, log_prob_of(model, words));
    }
  }
}

TEST(Beam, lists_are_sorted_distinct_and_truly_scored) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const TableOfWords model = table(seed, 2);
    const auto best = search(model, {6, 1, 6}, 10);
    EXPECT_EQ(best.size(), 6u);
    std::set<WordIds> different;
    for (size_t i = 0; i < best.size(); ++i) {
      different.insert(best[i].words);
      EXPECT_NEAR(best[i].log_prob, log_prob_of(model, best[i].words), 1e-9);
      EXPECT_DOUBLE_EQ(best[i].score,
                       best[i].log_prob / static_cast<double>(best[i].words.size() + 1));
      EXPECT_GE(best[i > 0 ? i - 1 : 0].score, best[i].score);
    }
    EXPECT_EQ(different.size(), best.size());
    EXPECT_EQ(search(model, {6, 1, 2}, 10)[0].words, best[0].words);
  }
}

TEST(Beam, equals_go_in_the_order_of_rows_and_words) {
  const TableOfWords flat = [](const WordIds&) { return std::vector<float>(kVocabulary, -1); };
  Beam beam({3, 0, 1}, 5);
  beam.advance(std::vector<float>(3 * kVocabulary, -1));  // </s> 4 5 | 6
  EXPECT_EQ(WordIds(beam.words().begin(), beam.words().end()), (WordIds{4, 5, 6}));
  EXPECT_EQ(search(flat, {1, 0, 1}, 5)[0].words, WordIds{});
  BeamOptions unknown{2, 0, 1, true};
  Beam other(unknown, 5);
  other.advance(std::vector<float>{-9, -1, -9, -2, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(WordIds(other.words().begin(), other.words().end()), (WordIds{1, 4}));
}

// A </s> that is not among the `beam` best continuations is too unlikely to be a translation.
TEST(Beam, ends_only_what_is_among_the_best) {
  Beam beam({2, 1, 2}, 5);
  const float no = -9;
  beam.advance(std::vector<float>{no, no, no, no, -1, -2, no, 0, 0, 0, 0, 0, 0, 0});
  beam.advance(std::vector<float>{no, no, no, -1, -2, no, no, no, no, no, -2, no, no, -4});
  ASSERT_EQ(beam.best().size(), 1u);  // -2: 4 </s>; -3: 4 4; then -4: 5 </s>; -6: 5 6
  EXPECT_EQ(beam.best()[0].words, (WordIds{4}));
  EXPECT_EQ(WordIds(beam.words().begin(), beam.words().end()), (WordIds{4, 6}));
  EXPECT_EQ(WordIds(beam.parents().begin(), beam.parents().end()), (WordIds{0, 1}));
}

TEST(Beam, rows_without_a_hypothesis_and_impossible_words_do_no_harm) {
  const float none = -std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const TableOfWords narrow = [&](const WordIds& prefix) {  // 4 4 </s> alone is possible
    std::vector<float> scores(kVocabulary, none);
    scores[prefix.size() < 2 ? 4 : kEnd] = 0;
    return scores;
  };
  const auto one = search(narrow, {5, 1, 5}, 9);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].words, (WordIds{4, 4}));
  EXPECT_EQ(one[0].log_prob, 0);
  const auto broken =
      search([&](const WordIds&) { return std::vector<float>(kVocabulary, nan); }, {3, 1, 2}, 9);
  ASSERT_EQ(broken.size(), 1u);  // as in greedy search, NaN ends the sentence
  EXPECT_TRUE(broken[0].words.empty());
}

TEST(Beam, ends_at_the_limit_with_the_true_probability) {
  const TableOfWords loop = [](const WordIds&) {
    return std::vector<float>{-9, -9, -9, -20, -0.01f, -8, -8};
  };
  const auto best = search(loop, {2, 1, 1}, 6);
  EXPECT_EQ(best[0].words, WordIds(6, 4));
  EXPECT_NEAR(best[0].log_prob, -20.06, 1e-5);
}

TEST(Beam, refuses_numbers_out_of_range) {
  for (const BeamOptions& bad :
       {BeamOptions{.beam = 0}, BeamOptions{.beam = 3, .n_best = 4}, BeamOptions{.n_best = 0},
        BeamOptions{.length_penalty = -0.1}, BeamOptions{.length_penalty = std::nan("")}}) {
    EXPECT_THROW(check_beam(bad), UsageError);
  }
  EXPECT_NO_THROW(check_beam({.beam = 3, .length_penalty = 0, .n_best = 3}));
}

// Step by step: as many words as TranslationScorer asks for leave nothing out, whatever is equal,
// impossible, or forbidden.
TEST(Beam, the_best_words_are_as_good_as_all) {
  constexpr size_t words = 40;
  uint32_t state = 5;
  const auto draw = [&](uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
  };
  for (int run = 0; run < 300; ++run) {
    const BeamOptions options{.beam = 1 + int64_t(draw(6)),
                              .length_penalty = 0.5 * draw(3),
                              .allow_unknown = draw(2) == 1};
    const auto width = static_cast<size_t>(options.beam);
    const size_t k = std::min(words, static_cast<size_t>(words_for_beam(options.beam)));
    Beam all(options, 6), best(options, 6);
    while (!all.done()) {
      std::vector<float> scores(width * words), values, ends;
      std::vector<int32_t> ids;
      for (float& score : scores) {  // few different ones; the specials among the best
        score = -0.25f * float(draw(12)) - 0.5f;
        if (draw(10) == 0) score = -std::numeric_limits<float>::infinity();
      }
      for (size_t row = 0; row < width; ++row) {
        const std::span<float> of_row{scores.data() + row * words, words};
        for (const size_t special : {0, 1, 2}) of_row[special] = -0.1f * float(draw(3));
        for (const int32_t word : best_words(of_row, k)) {
          ids.push_back(word), values.push_back(of_row[static_cast<size_t>(word)]);
        }
        ends.push_back(of_row[kEnd]);
      }
      all.advance(scores), best.advance(values, ids, ends);
      ASSERT_EQ(all.done(), best.done()) << run;
      for (size_t i = 0; i < width; ++i) {
        ASSERT_EQ(all.words()[i], best.words()[i]) << run;
        ASSERT_EQ(all.parents()[i], best.parents()[i]) << run;
      }
    }
    const auto a = all.best(), b = best.best();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].words, b[i].words) << run;
      EXPECT_EQ(a[i].log_prob, b[i].log_prob) << run;
    }
  }
}

}  // namespace
}  // namespace pal
