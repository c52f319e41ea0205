// BLEU against golden values of sacreBLEU 2.6.0 (golden/make_bleu.py).
#include "train/translation/bleu.h"

#include <gtest/gtest.h>

#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/error.h"

namespace pal {
namespace {

nlohmann::json golden() {
  std::ifstream in(std::string(PAL_SOURCE_DIR) + "/tests/train/golden/bleu.json");
  return nlohmann::json::parse(in);
}

TEST(Bleu, TokenizesAs13a) {
  const nlohmann::json file = golden();
  ASSERT_GT(file["lines"].size(), 20u);
  for (const auto& each : file["lines"]) {
    const auto line = each["line"].get<std::string>();
    EXPECT_EQ(tokenize_13a(line), each["words"].get<std::string>()) << line;
  }
}

// [\{-\~\[-\` -\&\(-\+\:-\@\/] of mteval-v13a: a word of its own, wherever it stands.
TEST(Bleu, SplitsOffPunctuationButApostrophesCommasHyphensAndPoints) {
  for (char c = '!'; c <= '~'; ++c) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '&') continue;  // & may be an entity
    const bool stays = c == '\'' || c == ',' || c == '-' || c == '.';
    const std::string split = std::string("a ") + c + " b", whole = std::string("a") + c + "b";
    const bool point = c == ',' || c == '.';  // stays between digits alone
    EXPECT_EQ(tokenize_13a(whole), stays && !point ? whole : split) << c;
    const std::string digits = std::string("1") + c + "2";
    EXPECT_EQ(tokenize_13a(digits), stays && c != '-' ? digits : std::string("1 ") + c + " 2") << c;
  }
}

TEST(Bleu, EqualsSacreBleu) {
  const nlohmann::json file = golden();
  ASSERT_GT(file["cases"].size(), 30u);
  for (const auto& each : file["cases"]) {
    const auto tokenizer = each["tokenizer"].get<std::string>();
    SCOPED_TRACE(each["name"].get<std::string>() + ", " + tokenizer);
    const auto hypotheses = each["hypotheses"].get<std::vector<std::string>>();
    const auto references = each["references"].get<std::vector<std::string>>();
    const BleuScore score =
        corpus_bleu(hypotheses, references,
                    tokenizer == "none" ? BleuTokenizer::none : BleuTokenizer::mteval_13a);
    EXPECT_NEAR(score.score, each["score"].get<double>(), 1e-9);
    EXPECT_NEAR(score.brevity_penalty, each["brevity_penalty"].get<double>(), 1e-12);
    EXPECT_EQ(score.hypothesis_length, each["hypothesis_length"].get<int64_t>());
    EXPECT_EQ(score.reference_length, each["reference_length"].get<int64_t>());
    for (size_t n = 0; n < 4; ++n) {
      EXPECT_EQ(score.correct[n], each["correct"][n].get<int64_t>()) << n;
      EXPECT_EQ(score.total[n], each["total"][n].get<int64_t>()) << n;
      EXPECT_NEAR(score.precisions[n], each["precisions"][n].get<double>(), 1e-9) << n;
    }
    EXPECT_EQ(score.print(), each["printed"].get<std::string>());
  }
}

TEST(Bleu, SignatureNamesTheTokenizer) {
  const std::vector<std::string> text = {"a b c d e"};
  EXPECT_EQ(corpus_bleu(text, text).signature,
            "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:palimpsest-1");
  EXPECT_EQ(corpus_bleu(text, text, BleuTokenizer::none).signature,
            "nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:palimpsest-1");
}

TEST(Bleu, RefusesUnequalOrNoSentences) {
  const std::vector<std::string> one = {"a"}, two = {"a", "b"};
  EXPECT_THROW(corpus_bleu(one, two), UsageError);
  EXPECT_THROW(corpus_bleu({}, {}), UsageError);
}

}  // namespace
}  // namespace pal
