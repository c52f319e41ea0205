// Made-up text: its words follow Zipf's law, and its "translations" their rule.
#include "data/made_up_text.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"

namespace pal {
namespace {

constexpr int32_t kFirst = Vocabulary::kSpecials;

TEST(MadeUpText, TranslationsFollowTheirRule) {
  const int32_t words = 37;
  for (const MadeUpPair& pair :
       make_up_text(numbered_words("s", 90), numbered_words("t", words), 300, 4, 2)) {
    std::vector<int32_t> want;
    const auto say = [&](int32_t id) {  // every fourth word is two
      const int32_t rank = id - kFirst;
      want.push_back(rank % words + kFirst);
      if (rank % 4 == 3) want.push_back((rank + 1) % words + kFirst);
    };
    const std::vector<int32_t>& said = pair.source;
    for (size_t i = 0; i < said.size(); ++i) {
      const bool swapped =
          i + 1 < said.size() && (said[i] - kFirst) % 2 == 1 && (said[i + 1] - kFirst) % 2 == 0;
      if (swapped) say(said[i + 1]);
      say(said[i]);
      i += swapped;
    }
    ASSERT_EQ(pair.target, want);
  }
}

TEST(MadeUpText, LengthsAndWordsAreLikeThoseOfSubtitles) {
  const int32_t words = 1000;
  const Vocabulary vocabulary = numbered_words("w", words);
  std::vector<double> below(size_t(words) + 1);  // by rank, the words that are more frequent
  double count = 0, pairs = 0;
  for (const MadeUpPair& pair : make_up_text(vocabulary, vocabulary, 4000, 1, 7)) {
    ASSERT_GE(pair.source.size(), 1u);
    ASSERT_LE(pair.source.size(), 300u);
    ++pairs;
    for (const int32_t id : pair.source) {
      ASSERT_GE(id, kFirst);
      ASSERT_LT(id, words + kFirst);
      ++count, ++below[size_t(id - kFirst) + 1];
    }
  }
  EXPECT_NEAR(count / pairs, 20, 1);
  for (size_t rank = 1; rank < below.size(); ++rank) below[rank] += below[rank - 1];
  for (const size_t rank : {1, 2, 10, 100, 500, 1000}) {
    const double want = std::log((double(rank) + 2.7) / 2.7) / std::log((words + 2.7) / 2.7);
    EXPECT_NEAR(below[rank] / count, want, 0.01) << rank;
  }
}

TEST(MadeUpText, DependsOnSeedAndStreamAlone) {
  const Vocabulary vocabulary = numbered_words("w", 50);
  const auto made = [&](uint64_t seed, uint32_t stream) {
    std::vector<std::vector<int32_t>> out;
    for (MadeUpPair& pair : make_up_text(vocabulary, vocabulary, 20, seed, stream)) {
      out.push_back(std::move(pair.source)), out.push_back(std::move(pair.target));
    }
    return out;
  };
  EXPECT_EQ(made(1, 2), made(1, 2));
  EXPECT_NE(made(1, 2), made(1, 3));
  EXPECT_NE(made(1, 2), made(2, 2));
  EXPECT_THROW(make_up_text(Vocabulary(), vocabulary, 1, 1, 1), UsageError);
  EXPECT_THROW(make_up_text(vocabulary, Vocabulary(), 1, 1, 1), UsageError);
  EXPECT_TRUE(make_up_text(vocabulary, vocabulary, 0, 1, 1).empty());
  EXPECT_EQ(vocabulary.words()[size_t(kFirst)], "w1");
  EXPECT_EQ(vocabulary.words().back(), "w50");
}

}  // namespace
}  // namespace pal
