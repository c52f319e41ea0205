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
  EXPECT_EQ(all.words(),
            (Words{"<pad>", "<unk>", "<s>", "</s>", "z", "a", "b", "é", "c"}));
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

  std::string refusal(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
    try {
      Vocabulary::load({path_, "data.source_vocabulary"});
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

}  // namespace
}  // namespace pal
