// Language models as the trainer sees them: what samples are made of, that hidden words stay the
// same for a seed, resuming, and that the shipped small configuration learns.
#include "train/language/language_task.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "core/error.h"
#include "train/config/config.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

class LanguageText : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("language_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    std::ofstream(folder_ / "train.txt") << "a b c\nb c d e\na a\n";
    std::ofstream(folder_ / "valid.txt") << "a zebra\n";
  }
  void TearDown() override { fs::remove_all(folder_); }

  TextConfig config(int64_t length) const {
    TextConfig c;
    c.root = folder_.string(), c.tokenizer = std::string("whitespace"), c.length = length;
    return c;
  }
  fs::path folder_;
};

const LanguageModel kNext{};

TEST_F(LanguageText, IsOneSequenceWhoseSamplesFollowEachOther) {
  LanguageData data(config(5), 1);
  const Vocabulary& v = data.vocabulary();
  EXPECT_EQ(v.size(), 9);
  const std::vector<int32_t> expected = v.encode(std::vector<std::string>{"a", "b", "c"}, true);
  EXPECT_EQ(std::vector<int32_t>(data.part("train").begin(), data.part("train").begin() + 4),
            expected);
  EXPECT_EQ(data.part("train").size(), 12u);
  EXPECT_EQ(data.samples("train"), 3);
  EXPECT_EQ(data.part("valid"), (std::vector<int32_t>{v.id("a"), Vocabulary::kUnknown, 3}));

  LanguageBatch batch;
  const std::vector<int64_t> which{2, 0};
  data.fill("train", which, 3, kNext, 0, batch);  // (5, 3): the last row is padding
  EXPECT_EQ(batch.samples, 2);
  EXPECT_EQ(batch.words, 7);
  EXPECT_EQ(batch.targets, 7);
  EXPECT_EQ(batch.lengths, (std::vector<int32_t>{2, 5, 0}));
  EXPECT_EQ(batch.tokens[1], Vocabulary::kEnd);  // before the first word
  EXPECT_EQ(batch.wanted[1], v.id("a"));
  EXPECT_EQ(batch.tokens[4], v.id("a"));
  EXPECT_EQ(batch.wanted[4], v.id("b"));
  EXPECT_EQ(batch.tokens[0], v.id("a"));  // text[9], before "a" </s>
  EXPECT_EQ(batch.wanted[0], v.id("a"));
  EXPECT_EQ(batch.wanted[3], Vocabulary::kEnd);
  for (int s = 0; s < 5; ++s) EXPECT_EQ(batch.wanted[size_t(3 * s + 2)], 0);
}

TEST_F(LanguageText, HidesWordsAsOftenAsAskedAndTheSameForASeed) {
  TextConfig c;
  c.synthetic = true, c.vocab_size = std::optional<int64_t>(50), c.length = 32;
  LanguageData data(c, 7);
  const LanguageModel model{.hides = true, .hide = 0.15f, .mask = 54};
  std::vector<int64_t> all(size_t(data.samples("train")));
  for (size_t i = 0; i < all.size(); ++i) all[i] = int64_t(i);
  LanguageBatch a, b, other;
  const auto rows = int64_t(all.size());
  data.fill("train", all, rows, model, 3, a);
  data.fill("train", all, rows, model, 3, b);
  data.fill("train", all, rows, model, 4, other);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_NE(a.tokens, other.tokens);
  int64_t masked = 0, kept = 0, changed = 0;
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    if (a.wanted[i] == 0) {
      EXPECT_NE(a.tokens[i], 54);
      continue;
    }
    EXPECT_GE(a.wanted[i], Vocabulary::kSpecials);  // the ends of lines are not guessed
    masked += a.tokens[i] == 54, kept += a.tokens[i] == a.wanted[i];
    changed += a.tokens[i] != 54 && a.tokens[i] != a.wanted[i];
  }
  const double n = double(a.targets);
  EXPECT_EQ(masked + kept + changed, a.targets);
  EXPECT_NEAR(n / double(a.words), 0.15, 0.02);
  EXPECT_NEAR(double(masked) / n, 0.8, 0.02);
  EXPECT_NEAR(double(kept) / n, 0.1, 0.02);
  EXPECT_NEAR(double(changed) / n, 0.1, 0.02);
}

Config small(const std::string& type) {
  std::vector<Override> sets;
  for (const char* set : {"data.synthetic=true", "data.vocab_size=40", "data.length=8",
                          "train.batch_size=64", "train.steps=4", "model.hidden=12"}) {
    sets.push_back(parse_set(set));
  }
  if (type == "bert") sets.push_back(parse_set("model.heads=3"));
  return parse_config("model: {type: " + type + "}\n", "test", sets);
}

TEST(LanguageTask, AnEpochTakesEverySampleOnceAndResumesAnywhere) {
  const Config config = small("rhn");
  LanguageTask task(config), again(config);
  int64_t samples = 0;
  bool last = false;
  while (!last) {
    const BatchInfo info = task.next(1)[0];
    samples += info.samples, last = info.last_of_epoch;
  }
  LanguageData data(config.text(), 1);
  EXPECT_EQ(samples, data.samples("train"));
  task.next(2);
  again.restore(task.position());
  EXPECT_EQ(again.position(), task.position());
  const auto a = task.next(3), b = again.next(3);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(a[i].tokens, b[i].tokens);
  EXPECT_THROW(again.restore("epoch 1"), UsageError);
  EXPECT_THROW(again.restore("batch 1 data 00000000000000ff"), UsageError);
}

TEST(LanguageTask, RefusesWhatDoesNotFit) {
  Config config = small("bert");
  std::get<ModelOf<BertOptions>>(config.model).model.positions = 4;
  EXPECT_THROW(LanguageTask{config}, UsageError);
  config = small("bert");
  std::get<ModelOf<BertOptions>>(config.model).model.heads = 5;
  EXPECT_THROW(LanguageTask{config}, UsageError);
  config = small("rhn");
  std::get<TextConfig>(config.data).vocab_size = std::optional<int64_t>();
  EXPECT_THROW(LanguageTask{config}, UsageError);
}

}  // namespace
}  // namespace pal
