// Tokenizing, and its reverse.
#include "data/tokenizer.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace pal {
namespace {

std::string split(const std::string& line) {
  std::string out;
  for (const std::string& word : tokenize(line, Tokenizer::simple)) {
    out += (out.empty() ? "" : " ") + word;
  }
  return out;
}

TEST(Tokenizer, SplitsPunctuationOff) {
  const char* cases[][2] = {
      {"Hello, world!", "Hello , world !"},
      {"Tôi không biết anh ấy ở đâu.", "Tôi không biết anh ấy ở đâu ."},
      {"“Được,” ông ấy nói…", "“ Được , ” ông ấy nói …"},
      {"e\u0302\u0301m", "e\u0302\u0301m"},  // combining marks stay with their letter
      {"It cost $1,000.5 (50%).", "It cost $ 1,000.5 ( 50 % ) ."},
      {"Tom's dog doesn't bite; they've said so.", "Tom 's dog doesn 't bite ; they 've said so ."},
      {"Tom’s", "Tom ’s"},
      {"WE'LL see", "WE 'LL see"},
      {"o'clock l'eau", "o'clock l'eau"},
      {"'quoted' \"words\"", "' quoted ' \" words \""},
      {"a well-known 24/7 AT&T user_name me@home", "a well-known 24/7 AT&T user_name me@home"},
      {"at 12:30, or 3.14", "at 12:30 , or 3.14"},
      {"U.S.A. e.g. that", "U.S.A . e.g . that"},
      {"Wait... what?! No--never!!", "Wait ... what ? ! No -- never !!"},
      {"-5 degrees, 3-4 cats - really", "-5 degrees , 3-4 cats - really"},
      {"«Oui» ¿Qué? 日本。", "« Oui » ¿ Qué ? 日本 。"},
      {"½ cup, 20°", "½ cup , 20 °"},
      {"  ", ""},
      {"", ""},
      {"a,b", "a , b"},
      {"end.", "end ."},
  };
  for (const auto& each : cases) EXPECT_EQ(split(each[0]), each[1]);
}

// The first and the last marks of each kind, and what stands beside them.
TEST(Tokenizer, KnowsMarksFromLetters) {
  for (const std::string mark :
       {"!",      "*",      ";",      "[",      "`",      "{",      "~",      "\u00A1", "\u00A9",
        "\u00AB", "\u00AC", "\u00B1", "\u00B4", "\u00B8", "\u00BB", "\u00BF", "\u00D7", "\u00F7",
        "\u2012", "\u2018", "\u2027", "\u2030", "\u205E", "\u20A0", "\u20CF", "\u2190", "\u2BFF",
        "\u3001", "\u3003", "\u3008", "\u3011", "\u3014", "\u301F", "\uFF01", "\uFF0F", "\uFF1A",
        "\uFF20", "\uFF3B", "\uFF40", "\uFF5B", "\uFF65"}) {
    EXPECT_EQ(split("a" + mark + "b"), "a " + mark + " b");
  }
  for (const std::string letter :
       {"0",      "9",      "A",      "Z",      "a",      "z",      "\u007F", "\u00AA",
        "\u00AD", "\u00B2", "\u00B3", "\u00B5", "\u00B9", "\u00BA", "\u00BC", "\u00BE",
        "\u00C0", "\u00D6", "\u00D8", "\u00F6", "\u00F8", "\u0100", "\u200F", "\u209F",
        "\u20D0", "\u218F", "\u2C00", "\u3004", "\u3007", "\u3012", "\u3013", "\u3020",
        "\uFF00", "\uFF10", "\uFF19", "\uFF21", "\uFF3A", "\uFF41", "\uFF5A", "\uFF66"}) {
    EXPECT_EQ(split("a" + letter + "b"), "a" + letter + "b");
  }
}

TEST(Tokenizer, TokenizedTextIsAFixedPoint) {
  for (const std::string line : {"Hello , world !", "“ Được , ” ông nói …", "$ 5 ( 3 % ) ..."}) {
    EXPECT_EQ(split(line), line);
  }
}

TEST(Tokenizer, DetokenizeReverses) {
  for (const std::string line :
       {"Hello, world!", "Tôi không biết anh ấy ở đâu.", "“Được,” ông ấy nói…",
        "It cost $1,000.5 (50%) [or so].", "Tom's dog doesn't bite; they've said so.",
        "He said \"no\", then \"yes\".", "The 'quoted' word.", "Wait... what?! Never!!",
        "„Ja“, sagte er.", "“One” and “two”.", "¿Qué? «Oui».", "-5 degrees - really: 12:30.",
        "a 24/7 well-known thing", "", "Tom’s ‘word’.", "It was 20° at #1."}) {
    EXPECT_EQ(detokenize(tokenize(line, Tokenizer::simple), Tokenizer::simple), line);
  }
}

TEST(Tokenizer, WhiteSpaceOnly) {
  const std::vector<std::string> words = tokenize(" a ,  b&apos;s\u3000c. ", Tokenizer::whitespace);
  EXPECT_EQ(words, (std::vector<std::string>{"a", ",", "b&apos;s", "c."}));
  EXPECT_EQ(detokenize(words, Tokenizer::whitespace), "a , b&apos;s c.");
}

TEST(Tokenizer, Names) {
  EXPECT_EQ(tokenizer_named("simple"), Tokenizer::simple);
  EXPECT_EQ(tokenizer_named("whitespace"), Tokenizer::whitespace);
  EXPECT_THROW(tokenizer_named("moses"), UsageError);
}

}  // namespace
}  // namespace pal
