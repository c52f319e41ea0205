// Best path and prefix beam against every spelling there is; error rates.
#include "train/speech/ctc_decode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "train/speech/error_rate.h"

namespace pal {
namespace {

struct Table {
  std::vector<float> data;
  int64_t steps, labels, stride;
  LogProbs probs() const { return {data.data(), steps, stride, labels}; }
};

Table random_table(std::mt19937& rng, int64_t steps, int64_t labels, int64_t stride) {
  Table t{std::vector<float>(size_t(steps * stride), 9.0f), steps, labels, stride};
  for (int64_t s = 0; s < steps; ++s) {
    double sum = 0;
    std::vector<double> x;
    for (int64_t v = 0; v < labels; ++v) {
      x.push_back(std::uniform_real_distribution<double>(-2, 2)(rng));
      sum += std::exp(x.back());
    }
    for (int64_t v = 0; v < labels; ++v) {
      t.data[size_t(s * stride + v)] = float(x[size_t(v)] - std::log(sum));
    }
  }
  return t;
}

// P of every spelling, and the likeliest alignment's.
std::map<std::vector<int32_t>, double> all_spellings(const Table& t) {
  std::map<std::vector<int32_t>, double> out;
  std::vector<int32_t> path(size_t(t.steps), 0);
  for (;;) {
    std::vector<int32_t> spelled;
    double log_p = 0;
    for (size_t s = 0; s < path.size(); ++s) {
      log_p += double(t.probs().at(int64_t(s), path[s]));
      if (path[s] != 0 && (s == 0 || path[s] != path[s - 1])) spelled.push_back(path[s]);
    }
    out[spelled] += std::exp(log_p);
    size_t at = 0;
    while (at < path.size() && ++path[at] == t.labels) path[at++] = 0;
    if (at == path.size()) return out;
  }
}

TEST(CtcBeam, ThatHoldsEverythingFindsTheLikeliestSpelling) {
  std::mt19937 rng(1);
  int better = 0;
  for (int i = 0; i < 60; ++i) {
    const Table t = random_table(rng, 1 + i % 6, 2 + i % 3, 5);
    const auto all = all_spellings(t);
    auto best = all.begin();
    for (auto at = all.begin(); at != all.end(); ++at) {
      if (at->second > best->second) best = at;
    }
    const Spelling got = ctc_beam(t.probs(), 10000);
    EXPECT_EQ(got.labels, best->first);
    EXPECT_NEAR(got.log_prob, std::log(best->second), 1e-5);
    better += ctc_greedy(t.probs()).labels != best->first;
  }
  EXPECT_GT(better, 5) << "the best path is often not the likeliest spelling";
}

TEST(CtcBeam, OfAnyWidthFindsASpellingThatItHasCountedRight) {
  std::mt19937 rng(2);
  for (int i = 0; i < 30; ++i) {
    const Table t = random_table(rng, 6, 3, 3);
    const auto all = all_spellings(t);
    for (const int64_t beam : {1, 2, 5}) {
      const Spelling got = ctc_beam(t.probs(), beam);
      EXPECT_LE(got.log_prob, std::log(all.at(got.labels)) + 1e-6);
    }
  }
}

TEST(CtcGreedy, TakesOutRepetitionsThenBlanks) {
  const std::vector<int> path{0, 1, 1, 0, 1, 2, 2, 0, 0, 1};
  Table t{std::vector<float>(30, -5), 10, 3, 3};
  for (size_t s = 0; s < path.size(); ++s) t.data[s * 3 + size_t(path[s])] = -0.1f;
  const Spelling got = ctc_greedy(t.probs());
  EXPECT_EQ(got.labels, (std::vector<int32_t>{1, 1, 2, 1}));
  EXPECT_NEAR(got.log_prob, -1, 1e-6);
  EXPECT_EQ(ctc_beam(t.probs(), 20).labels, got.labels);
}

TEST(CtcGreedy, OfNoStepsIsNothing) {
  const LogProbs none{nullptr, 0, 3, 3};
  EXPECT_TRUE(ctc_greedy(none).labels.empty());
  EXPECT_TRUE(ctc_beam(none, 4).labels.empty());
}

TEST(ErrorRates, CountSubstitutionsInsertionsDeletions) {
  auto words = [](const char* h, const char* r) { return word_errors(h, r).errors; };
  EXPECT_EQ(words("one two three", "one two three"), 0);
  EXPECT_EQ(words("one  two", " one two "), 0);
  EXPECT_EQ(words("one too three", "one two three"), 1);
  EXPECT_EQ(words("two three", "one two three"), 1);
  EXPECT_EQ(words("one two two three four", "one two three"), 2);
  EXPECT_EQ(words("", "one two"), 2);
  EXPECT_EQ(words("a b c d", "b c d e"), 2);
  const ErrorRate letters = character_errors("kitten", "sitting");
  EXPECT_EQ(letters.errors, 3);
  EXPECT_EQ(letters.units, 7);
  EXPECT_EQ(character_errors("caf\xC3\xA9  x", "cafe x").errors, 1) << "a code point is one";
  ErrorRate sum;
  sum += {1, 4}, sum += {2, 4};
  EXPECT_EQ(sum.percent(), 37.5);
  EXPECT_EQ(ErrorRate{}.percent(), 0);
  EXPECT_EQ(word_errors("a b c", "a").percent(), 200);
  EXPECT_EQ(word_errors("a", "").percent(), 100);
}

}  // namespace
}  // namespace pal
