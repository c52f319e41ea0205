// What the steps of large configurations launch and move, held against kernel_counts.txt: a rise
// fails, and so does a fall that nobody has written down. After a change that is meant:
//
//   PAL_WRITE_KERNEL_COUNTS=1 build/test_emulation --gtest_filter='*KernelCounts*'
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "train/commands/count_kernels.h"
#include "train/config/profile.h"
#include "train/config/wording.h"

namespace pal::test {
namespace {

struct Step {
  std::string config;
  std::pair<int64_t, int64_t> bucket;
  std::vector<std::string> sets;
};
// Those of bench/compare/large_cases.json that fill a card; of Deep Speech 2 a third of the frames.
// And a network of convolutions with biases.
const std::vector<Step>& steps() {
  static const std::vector<Step> all = {
      {"nmt_iwslt",
       {30, 30},
       {"data.source_vocab_size=17188", "data.target_vocab_size=7706", "model.fused=true",
        "train.batch_size=512"}},
      {"transformer_base", {30, 30}, {"train.batch_words=null", "train.batch_size=832"}},
      {"bert_base", {512, 512}, {}},
      {"resnet50_imagenet", {224, 224}, {"train.batch_size=256"}},
      {"vgg16_imagenet", {224, 224}, {"train.batch_size=64"}},
      {"deepspeech2_librispeech", {400, 60}, {"model.fully_connected=0", "train.optimizer=adam"}},
  };
  return all;
}

struct Counts {
  int64_t launches = 0;
  double moved = 0, least = 0;  // MB
};

const std::filesystem::path kFile =
    std::filesystem::path(PAL_SOURCE_DIR) / "tests/emulation/kernel_counts.txt";
constexpr const char* kHead =
    "# Of a step: launches, MB moved, the least MB that its operators must move (docs/cuda.md).\n"
    "# Made by tests/emulation/kernel_counts_test.cc, which says how; not to be edited.\n";

// "bert_base f32" -> counts.
std::map<std::string, Counts> written_counts() {
  std::map<std::string, Counts> out;
  std::ifstream in(kFile);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string config, precision;
    Counts counts;
    words >> config >> precision >> counts.launches >> counts.moved >> counts.least;
    out[config + " " + precision] = counts;
  }
  return out;
}
void write_counts(const std::map<std::string, Counts>& all) {
  std::ofstream out(kFile);
  out << kHead;
  for (const auto& [name, counts] : all) {
    out << printed("%-32s %6lld %10.1f %10.1f\n", name.c_str(),
                   static_cast<long long>(counts.launches), counts.moved, counts.least);
  }
}

class KernelCounts : public testing::TestWithParam<std::tuple<size_t, const char*>> {};

TEST_P(KernelCounts, AreAsWrittenDown) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "accesses are not watched in this build";
#endif
  const Step& step = steps()[std::get<0>(GetParam())];
  const std::string precision = std::get<1>(GetParam()), name = step.config + " " + precision;
  std::vector<Override> overrides{parse_set("train.precision=" + precision)};
  for (const std::string& set : step.sets) overrides.push_back(parse_set(set));
  const Config config = load_config(find_config(step.config), overrides);
  const KernelReport report = count_kernels(config, step.config, step.bucket, load_profile("h200"));
  const Counts now{report.all.launches, report.all.bytes * 1e-6, report.all.least_bytes * 1e-6};
  std::map<std::string, Counts> all = written_counts();
  if (std::getenv("PAL_WRITE_KERNEL_COUNTS")) {
    all[name] = now;
    write_counts(all);
    return;
  }
  ASSERT_TRUE(all.contains(name)) << name << " is not in " << kFile;
  const Counts& then = all[name];
  EXPECT_EQ(now.launches, then.launches);
  EXPECT_NEAR(now.moved, then.moved, 0.002 * then.moved);
  EXPECT_NEAR(now.least, then.least, 0.002 * then.least);
}

INSTANTIATE_TEST_SUITE_P(Steps, KernelCounts,
                         testing::Combine(testing::Range(size_t(0), steps().size()),
                                          testing::Values("f32", "bf16")),
                         [](const auto& param) {
                           return steps()[std::get<0>(param.param)].config + "_" +
                                  std::get<1>(param.param);
                         });

}  // namespace
}  // namespace pal::test
