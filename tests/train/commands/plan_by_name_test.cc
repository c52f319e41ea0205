// `pal plan` of every configuration that ships, by its name alone: in an empty folder, without the
// data and without options.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/support/files.h"
#include "train/commands/cli.h"
#include "train/commands/commands.h"
#include "train/config/published_sizes.h"
#include "train/tasks/make_task.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> shipped() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(PAL_SOURCE_DIR "/configs")) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class PlanByName : public testing::TestWithParam<std::string> {
 protected:
  PlanByName() { fs::current_path(folder_.path()); }
  ~PlanByName() override { fs::current_path(before_); }

 private:
  const fs::path before_ = fs::current_path();
  const TemporaryFolder folder_;
};

TEST_P(PlanByName, NeedsNeitherDataNorOptions) {
  auto args = std::any_cast<PlanArgs>(
      parse_command_line("pal", {"plan", "--config", GetParam(), "--json"}).args);
  // The passes that take long depend on nothing that is missing.
  args.config.memory.schedule = Schedule::program;
  args.config.memory.recompute = Recompute::none;
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_plan(args), kExitDone);
  const auto json = nlohmann::json::parse(testing::internal::GetCapturedStdout());
  EXPECT_GT(json["bytes"]["weights"].get<int64_t>(), 0);
  EXPECT_GE(json["bytes"]["arena"].get<int64_t>(), json["bytes"]["lower_bound"].get<int64_t>());
}

TEST_P(PlanByName, TheDataItselfGoesBeforeItsSizes) {
  Config config = load_config(find_config(GetParam()));
  const std::string said = use_published_sizes(config);
  const bool ships =
      std::visit([](const auto& data) { return fs::exists(data_path(data, "")); }, config.data);
  EXPECT_EQ(said.empty(), ships) << said;
  EXPECT_EQ(std::visit([](const auto& data) { return *data.synthetic; }, config.data), !ships);
  if (ships) return;
  EXPECT_NE(said.find("published sizes: "), std::string::npos) << said;
  // Training is not to begin without the data.
  EXPECT_NE(usage_error_of([&] { make_task(load_config(find_config(GetParam())))->describe(); }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Configs, PlanByName, testing::ValuesIn(shipped()),
                         [](const auto& test) { return test.param; });

TEST(PublishedSizes, AreWhatTheConfigurationStates) {
  auto said = [](const std::string& data, const std::string& type = "nmt") {
    Config config = parse_config(
        "model: {type: " + type + "}\ndata: {root: nowhere, " + data + "}\ntrain: {steps: 1}\n",
        "test.yaml");
    return use_published_sizes(config);
  };
  const std::string begin =
      "data not found (nowhere/train.en): planned with the configuration's published sizes: ";
  EXPECT_EQ(said("source_vocab_size: 17188, target_vocab_size: 7706"),
            begin + "17,188 source words, 7,706 target words, sentences of up to 100");
  EXPECT_EQ(said("source_vocab_size: 50, shared_vocabulary: true"),
            begin + "50 words, sentences of up to 100");
  EXPECT_EQ(said("tokenizer: sentencepiece, sentencepiece_size: 32000, max_length: 50"),
            begin + "32,000 pieces each, sentences of up to 50");
  for (const char* incomplete :
       {"max_length: 50", "source_vocab_size: 50", "tokenizer: sentencepiece",
        "tokenizer: sentencepiece, sentencepiece_size: 50, sentencepiece_file: m.model",
        "source_vocab_size: 50, target_vocab_size: 50, synthetic: true"}) {
    EXPECT_EQ(said(incomplete), "") << incomplete;
  }
  EXPECT_EQ(said("train: [a], classes: 12", "resnet"),
            "data not found (nowhere/a): planned with the configuration's published sizes: "
            "12 classes, images of 224 x 224");
  EXPECT_EQ(said("train: [a]", "resnet"), "");
  EXPECT_NE(said("vocab_size: 9", "rhn").find("9 words, samples of 128"), std::string::npos);
  EXPECT_NE(said("max_seconds: 2.5", "deepspeech2").find("up to 2.5 seconds"), std::string::npos);
  EXPECT_EQ(said("max_seconds: 2.5, labels: l.txt", "deepspeech2"), "");
}

}  // namespace
}  // namespace pal
