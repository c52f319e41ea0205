// Vocabularies: order, limits, files, and damaged files.
#include "data/vocabulary.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "core/error.h"

namespace pal {
namespace {

using Words = std::vector<std::string>;
using Ids = std::vector<int32_t>;

WordCounter counted() {
  WordCounter counter;
  counter.add(Words{"b", "é", "a", "é", "z", "z", "z", "<s>", "<s>"});
  counter.add(Words{"a", "b", "c"});
  return counter;
}

TEST(Vocabulary, OrdersByCountThenBytes) {
  const Vocabulary all = counted().vocabulary({});
  EXPECT_EQ(all.words(), (Words{"<pad>", "<unk>", "<s>", "</s>", "z", "a", "b", "é", "c"}));
  EXPECT_EQ(counted().vocabulary({.max_words = 2}).words(),
            (Words{"<pad>", "<unk>", "<s>", "</s>", "z", "a"}));
  EXPECT_EQ(counted().vocabulary({.max_words = 0, .min_count = 2}).size(), 8);
  EXPECT_EQ(counted().count("z"), 3);
  EXPECT_EQ(counted().count("y"), 0);
}

TEST(Vocabulary, EncodesAndDecodes) {
  const Vocabulary vocabulary = counted().vocabulary({});
  const Ids ids = vocabulary.encode(Words{"z", "what", "é", "</s>"}, true);
  EXPECT_EQ(ids, (Ids{4, 1, 7, 1, 3}));  // a special in the text is no special
  EXPECT_EQ(vocabulary.encode(Words{"z"}), (Ids{4}));
  EXPECT_EQ(vocabulary.decode(Ids{2, 4, 1, 0, 7, 3, 4}), (Words{"z", "<unk>", "é"}));
  EXPECT_THROW(vocabulary.decode(Ids{9}), ProgramError);
  EXPECT_THROW(vocabulary.word(-1), ProgramError);
  EXPECT_EQ(Vocabulary().size(), 4);
}

TEST(Vocabulary, CopiesAreIndependent) {
  auto first = std::make_unique<Vocabulary>(counted().vocabulary({}));
  const Vocabulary copy = *first;
  first.reset();
  EXPECT_EQ(copy.id("z"), 4);
}

class VocabularyFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "vocab_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/v.txt";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  std::string refusal(const std::string& bytes,
                      Vocabulary (*load)(const CorpusFile&) = Vocabulary::load) const {
    write(bytes);
    try {
      load({path_, "data.source_vocabulary"});
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  }

  std::string folder_, path_;
};

TEST_F(VocabularyFile, RoundTrip) {
  const Vocabulary saved = counted().vocabulary({});
  saved.save(path_);
  const Vocabulary loaded = Vocabulary::load({path_, ""});
  EXPECT_EQ(loaded.words(), saved.words());
  EXPECT_EQ(loaded.id("é"), saved.id("é"));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".tmp"));
  EXPECT_THROW(saved.save(folder_ + "/absent/v.txt"), Error);
}

TEST_F(VocabularyFile, RefusesDamage) {
  const std::string specials = "<pad>\n<unk>\n<s>\n</s>\n";
  ASSERT_EQ(refusal(specials + "a\nb\n"), "accepted");
  const struct {
    std::string bytes;
    std::vector<std::string> says;
  } cases[] = {
      {specials + "a\nb\na\n", {"line 7", "'a'", "line 5"}},
      {specials + "a\n<unk>\n", {"line 6", "line 2"}},
      {specials + "a\n\nb\n", {"line 6", "empty"}},
      {specials + "a 12\n", {"line 5", "white space"}},
      {specials + "a\xFF\n", {"line 5", "invalid UTF-8"}},
      {"<unk>\n<s>\n</s>\na\n", {"line 1", "must be <pad>"}},
      {"<pad>\n<unk>\n<s>\n", {"line 4", "must be </s>"}},
      {"", {"empty"}},
  };
  for (const auto& each : cases) {
    const std::string message = refusal(each.bytes);
    EXPECT_NE(message.find(path_), std::string::npos) << message;
    EXPECT_NE(message.find("data.source_vocabulary"), std::string::npos) << message;
    for (const std::string& part : each.says) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
    }
  }
}

TEST_F(VocabularyFile, ReadsOthersFormats) {
  const Words specials = Vocabulary().words();
  const struct {
    const char* what;
    std::string bytes;
    Words words;  // after the specials
  } cases[] = {
      {"ours", "<pad>\n<unk>\n<s>\n</s>\na\nb\n", {"a", "b"}},
      {"Luong's", "<unk>\n<s>\n</s>\nRachel\n:\n", {"Rachel", ":"}},
      {"no specials", "a\nb", {"a", "b"}},
      {"specials among the words", "the\n<unk>\n,\n</s>\n", {"the", ","}},
      {"fairseq's", "the 999\n, 12\nmadeupword0000 0\n", {"the", ",", "madeupword0000"}},
      {"counts after a TAB", "the\t999\n<unk>\t12\nof\t3\r\n", {"the", "of"}},
      {"numbers as words", "1999 12\n12 3\n", {"1999", "12"}},
      {"numbers alone", "12\n3\n", {"12", "3"}},
  };
  for (const auto& each : cases) {
    write(each.bytes);
    Words all = specials;
    all.insert(all.end(), each.words.begin(), each.words.end());
    const Vocabulary read = Vocabulary::load_any({path_, ""});
    EXPECT_EQ(read.words(), all) << each.what;
    EXPECT_EQ(read.id(each.words.back()), read.size() - 1) << each.what;
    EXPECT_EQ(read.id("<unk>"), Vocabulary::kUnknown);
  }
}

TEST_F(VocabularyFile, OthersFormatsNameTheLine) {
  const struct {
    std::string bytes;
    std::vector<std::string> says;
  } cases[] = {
      {"a\nb\na\n", {"line 3", "'a'", "line 1"}},
      {"<unk>\na\n<unk>\n", {"line 3", "'<unk>'", "line 1"}},
      {"a 5\nb 4\na 1\n", {"line 3", "'a'", "line 1"}},
      {"a\nb 12\n", {"line 2", "white space", "on every line or on none"}},
      {"a 12\nb\n", {"line 2", "lacks the count"}},
      {"a 12\nb c 3\n", {"line 2", "white space"}},
      {"a 12\nb 3 #fairseq:overwrite\n", {"line 2", "lacks the count"}},
      {"a -1.5\n", {"line 1", "white space"}},
      {"a\n\nb\n", {"line 2", "empty"}},
      {"", {"empty"}},
  };
  for (const auto& each : cases) {
    const std::string message = refusal(each.bytes, Vocabulary::load_any);
    EXPECT_NE(message.find(path_), std::string::npos) << message;
    EXPECT_NE(message.find("data.source_vocabulary"), std::string::npos) << message;
    for (const std::string& part : each.says) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
    }
  }
}

TEST(Vocabulary, OfPieces) {
  const Vocabulary pieces = Vocabulary::from_pieces(Words{"▁a", "</s>", " ", "b"});
  EXPECT_EQ(pieces.size(), 7);  // no special comes from a text
  EXPECT_EQ(pieces.encode(Words{"▁a", "</s>", " ", "b", "c"}), (Ids{4, 1, 5, 6, 1}));
  EXPECT_THROW(Vocabulary::from_pieces(Words{"a", "a"}), ProgramError);
}

}  // namespace
}  // namespace pal
