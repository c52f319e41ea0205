// SentencePiece: learned the same every time, there and back, files, and what it refuses.
#include "data/sentencepiece.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/error.h"
#include "data/encoded_text.h"

namespace pal {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

Lines sample(const std::string& name) {
  return read_lines({std::string(PAL_SOURCE_DIR) + "/data/samples/tatoeba_en_vi/" + name, ""});
}

SentencePiece learn(const std::vector<const Lines*>& texts, const std::string& model,
                    int64_t pieces) {
  return SentencePiece::train(texts, {model, pieces});
}

std::string refusal(auto action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

class SentencePieceTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "pieces_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string folder_;
};

TEST_F(SentencePieceTest, LearnsTheSameEveryTimeAndComesBack) {
  const Lines english = sample("valid.en"), vietnamese = sample("valid.vi");
  for (const char* kind : {"unigram", "bpe"}) {
    const SentencePiece both = learn({&english, &vietnamese}, kind, 600);
    const SentencePiece again = learn({&english, &vietnamese}, kind, 600);
    EXPECT_TRUE(both == again);
    EXPECT_FALSE(both == learn({&english}, kind, 600));
    EXPECT_EQ(both.pieces().size(), 600u) << kind;
    EXPECT_EQ(std::set<std::string>(both.pieces().begin(), both.pieces().end()).size(), 600u);

    const std::string path = folder_ + "/m.model";
    both.save(path);
    const SentencePiece loaded = SentencePiece::load({path, ""});
    EXPECT_TRUE(loaded == both);
    EXPECT_EQ(loaded.pieces(), both.pieces());

    const Vocabulary vocabulary = Vocabulary::from_pieces(both.pieces());
    int unknown = 0, words = 0, pieces = 0;
    for (const std::string& line : vietnamese) {
      if (line.find("\u200b") != std::string::npos) continue;  // normalised away
      const std::vector<std::string> cut = loaded.encode(line);
      EXPECT_EQ(cut, both.encode(line));
      EXPECT_EQ(loaded.decode(cut), line);  // in the normal form already
      const std::vector<int32_t> ids = vocabulary.encode(cut);
      unknown += static_cast<int>(std::count(ids.begin(), ids.end(), Vocabulary::kUnknown));
      words += static_cast<int>(tokenize(line, Tokenizer::whitespace).size());
      pieces += static_cast<int>(cut.size());
      if (unknown == 0) {
        EXPECT_EQ(loaded.decode(vocabulary.decode(ids)), line);
      }
    }
    EXPECT_LT(unknown, 30);  // the rarest letters
    EXPECT_GT(pieces, words);
    EXPECT_LT(pieces, 3 * words);
  }
}

TEST_F(SentencePieceTest, WhiteSpaceAndUnknownLetters) {
  const Lines english = sample("valid.en");
  const SentencePiece model = learn({&english}, "bpe", 300);
  EXPECT_TRUE(model.encode("").empty());
  EXPECT_TRUE(model.encode("   ").empty());
  EXPECT_EQ(model.decode({}), "");
  EXPECT_EQ(model.decode(model.encode("  I   like\u00a0it ")), "I like it");
  const Vocabulary vocabulary = Vocabulary::from_pieces(model.pieces());
  const std::vector<int32_t> ids = vocabulary.encode(model.encode("I \u4e2d it"));
  EXPECT_EQ(std::count(ids.begin(), ids.end(), Vocabulary::kUnknown), 1);
  EXPECT_NE(model.decode(vocabulary.decode(ids)).find("<unk>"), std::string::npos);
  // Text that looks like a special is no special.
  for (const int32_t id : vocabulary.encode(model.encode("a </s> b <pad>"))) {
    EXPECT_TRUE(id == Vocabulary::kUnknown || id >= Vocabulary::kSpecials);
  }
}

TEST_F(SentencePieceTest, SmallTextsHaveFewerPiecesAndTooFewAreRefused) {
  const Lines few = {"one two three", "two one", "three two two"};
  for (const char* kind : {"unigram", "bpe"}) {
    const SentencePiece small = learn({&few}, kind, 5000);
    EXPECT_GT(small.pieces().size(), 5u);
    EXPECT_LT(small.pieces().size(), 60u);
    EXPECT_EQ(small.decode(small.encode("two three")), "two three");
    const std::string message = refusal([&] { learn({&few}, kind, 3); });
    EXPECT_NE(message.find("cannot learn 3 pieces"), std::string::npos) << message;
    EXPECT_NE(message.find("data.sentencepiece_size"), std::string::npos) << message;
    // The library's reason, without where in its source it found it.
    EXPECT_NE(message.find("of the training text: Vocabulary size"), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    const Lines blank = {"", "  "}, none;
    for (const Lines* nothing : {&blank, &none}) {
      EXPECT_NE(refusal([&] { learn({nothing}, kind, 100); }).find("no words"), std::string::npos);
    }
  }
}

// Lines are counted on from one text to the next.
TEST_F(SentencePieceTest, OfTooManyLinesEvenlySpacedOnesAreUsed) {
  const Lines english = sample("valid.en");
  ASSERT_GE(english.size(), 151u);
  const Lines first(english.begin(), english.begin() + 90);
  const Lines second(english.begin() + 90, english.begin() + 151);
  const std::vector<const Lines*> both = {&first, &second};
  const SentencePiece whole = learn(both, "bpe", 200);
  for (const auto& [most, step] : {std::pair(151, 1), {150, 2}, {76, 2}, {75, 3}, {51, 3}}) {
    Lines spaced;
    for (size_t i = 0; i < 151; i += size_t(step)) spaced.push_back(english[i]);
    EXPECT_LE(spaced.size(), size_t(most));
    const SentencePiece model = SentencePiece::train(both, {"bpe", 200, size_t(most)});
    EXPECT_TRUE(model == learn({&spaced}, "bpe", 200)) << most;
    EXPECT_EQ(model == whole, step == 1) << most;
  }
}

TEST_F(SentencePieceTest, DamagedFilesAreRefused) {
  const std::string path = folder_ + "/m.model";
  const auto load = [&] { SentencePiece::load({path, "data.sentencepiece_file"}); };
  EXPECT_NE(refusal(load).find("no such file"), std::string::npos);
  for (const std::string& bytes : {std::string(), std::string("not a model"),
                                   std::string(1000, '\xFF'), std::string("a\nb\n")}) {
    std::ofstream(path, std::ios::binary) << bytes;
    const std::string message = refusal(load);
    EXPECT_NE(message.find(path), std::string::npos) << message;
    EXPECT_NE(message.find("data.sentencepiece_file"), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  // A piece that begins with a zero byte, for which the library throws what is its own.
  const Lines few = {"one two three", "two one", "three two two"};
  learn({&few}, "unigram", 20).save(path);
  std::ofstream(path, std::ios::binary | std::ios::app) << std::string("\x0a\x04\x0a\x02\0a", 6);
  EXPECT_NE(refusal(load).find("its pieces cannot be looked up"), std::string::npos);
  EXPECT_NE(refusal([&] { SentencePiece::load({folder_, ""}); }), "accepted");  // a folder
}

TEST_F(SentencePieceTest, SegmentersAreComparedByWhatTheyDo) {
  const Lines few = {"one two three", "two one", "three two two"};
  const Segmenter pieces(learn({&few}, "bpe", 20)), same(learn({&few}, "bpe", 20));
  EXPECT_TRUE(pieces == same);
  EXPECT_FALSE(pieces == Segmenter(learn({&few}, "bpe", 15)));
  EXPECT_FALSE(pieces == Segmenter(Tokenizer::simple));
  EXPECT_TRUE(Segmenter(Tokenizer::simple) == Segmenter(Tokenizer::simple));
  EXPECT_FALSE(Segmenter(Tokenizer::simple) == Segmenter(Tokenizer::whitespace));
  EXPECT_EQ(pieces.join(pieces.split("three one")), "three one");
  EXPECT_EQ(Segmenter(Tokenizer::simple).join(Segmenter(Tokenizer::simple).split("Tom's.")),
            "Tom's.");
}

}  // namespace
}  // namespace pal
