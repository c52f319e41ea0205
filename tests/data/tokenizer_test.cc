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
