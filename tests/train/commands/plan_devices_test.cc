// pal plan --devices: what it says of exchanges, joules and speedup, and what it refuses.
#include "train/commands/plan_devices.h"

#include <cmath>
#include <fstream>

#include "tests/support/files.h"
#include "tests/train/commands/plan_command.h"
#include "train/config/profile.h"
#include "train/report/device_facts.h"

namespace pal::test {
namespace {

class PlanDevices : public PlanRun {
 protected:
  nlohmann::json plan(std::vector<std::string> words) {
    words.insert(words.begin(),
                 {"--config", PAL_SOURCE_DIR "/configs/nmt_small.yaml", "--set",
                  "data.synthetic=true", "--set", "data.source_vocab_size=60", "--set",
                  "data.target_vocab_size=50", "--bucket", "6,6", "--profile", "v100_16"});
    return run_json(words);
  }
  std::string refused(std::vector<std::string> words) {
    words.insert(words.begin(), {"--config", PAL_SOURCE_DIR "/configs/nmt_small.yaml"});
    run(words);
    EXPECT_EQ(code_, kExitUsage);
    return error_;
  }
};

TEST_F(PlanDevices, SaysWhatExchangesTake) {
  const auto json = plan({"--devices", "4", "--link", "pcie3", "--set", "train.bucket=64KiB"});
  const auto& d = json["devices"];
  EXPECT_EQ(d["ranks"], 4);
  EXPECT_EQ(d["per_node"], 4);
  EXPECT_EQ(d["link"], "PCIe 3.0 x16");
  EXPECT_EQ(d["bytes_per_rank"], json["bytes"]["total"]);
  EXPECT_GT(d["nccl_bytes"], 0);
  // Gradients, as many bytes as weights, out and back but for a rank's own quarter; and the loss.
  const double weights = json["bytes"]["weights"].get<double>();
  EXPECT_NEAR(d["link_bytes"].get<double>(), 2 * 0.75 * weights, 0.02 * weights);
  const double step = json["time"]["step_ms"].get<double>();
  const double exposed = d["exposed_ms"].get<double>();
  EXPECT_GT(exposed, 0);
  const double all = d["communication_ms"].get<double>();
  EXPECT_LT(exposed, 0.7 * all) << "the rest is hidden";
  const auto plain = plan({"--devices", "4", "--link", "pcie3", "--set", "train.link=none", "--set",
                           "train.bucket=64KiB"});
  EXPECT_NEAR(plain["devices"]["exposed_ms"].get<double>(), all, 1e-9);
  EXPECT_NEAR(plain["time"]["step_ms"].get<double>() - step, all - exposed, 1e-6 * step);
  const DeviceProfile card = load_profile("v100_16");
  EXPECT_NEAR(d["joules"].get<double>(),
              4e-3 * (card.busy * (step - exposed) + card.idle * exposed), 1e-9);
  const auto speedup = d["speedup"].get<double>();
  EXPECT_TRUE(speedup > 0 && speedup < 4) << speedup;
  // Samples of all devices.
  EXPECT_NEAR(json["time"]["samples_per_s"].get<double>() * step / 1e3, 4 * 64, 1e-6);
}

// Ranks of a node have a part of a measured processor each, and never more than all of it together.
TEST_F(PlanDevices, RanksOfANodeDivideAProcessor) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "four.yaml").string();
  std::ofstream(file) << "name: four\nmeasured: true\ncapacity: 8GiB\nf32_tflops: 0.4\n"
                         "vector_tflops: 0.1\nmemory_gb_s: 20\nunits: 4\nthread_f32_tflops: 0.15\n"
                         "thread_vector_tflops: 0.03\nthread_memory_gb_s: 15\nlaunch_us: 1\n"
                         "matmul_efficiency: 1\nmemory_efficiency: 1\n";
  PlanArgs args{.profile = file};
  EXPECT_EQ(profile_of(args).f32, 0.4e12);
  for (const int64_t ranks : {1, 2, 4}) {
    args.links = std::make_shared<const Links>(Links{.ranks = 4, .per_node = ranks});
    const DeviceProfile part = profile_of(args);
    EXPECT_LE(part.f32 * double(ranks), 0.4e12 + 1);
    EXPECT_LE(part.vector * double(ranks), 0.1e12 + 1);
    EXPECT_LE(part.memory * double(ranks), 20e9 + 1);
    EXPECT_EQ(part.units, 4 / double(ranks));
    EXPECT_GE(part.f32, 0.09e12);
  }
  args.profile = "v100_16";
  EXPECT_EQ(profile_of(args).f32, load_profile("v100_16").f32) << "a card each";
}

// What layouts this processor's library prefers is nothing to a card.
TEST_F(PlanDevices, ACardsPlanReordersNothing) {
  const auto reorders = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"--config", PAL_SOURCE_DIR "/configs/resnet_small.yaml"});
    const auto json = run_json(words);
    for (const auto& pass : json["passes"]) {
      if (pass["name"] == "layouts") return true;
    }
    return false;
  };
  EXPECT_FALSE(reorders({"--profile", "v100_16"}));
  EXPECT_TRUE(reorders({}));
}

TEST_F(PlanDevices, OneDevicePaysNothing) {
  const auto plain = plan({}), one = plan({"--devices", "1"});
  EXPECT_FALSE(plain.contains("devices"));
  EXPECT_EQ(one["time"]["step_ms"], plain["time"]["step_ms"]);
  EXPECT_EQ(one["bytes"], plain["bytes"]);
  EXPECT_EQ(one["devices"]["communication_ms"], 0);
  EXPECT_EQ(one["devices"]["link_bytes"], 0);
  EXPECT_EQ(one["devices"]["nccl_bytes"], 0);
  EXPECT_EQ(one["devices"]["speedup"], 1);
}

// Of a device whose watts are not known the key is there, without a number.
TEST_F(PlanDevices, JoulesThatAreNotKnownAreNull) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "card.yaml").string();
  std::ofstream(file) << "name: card\ncapacity: 8GiB\nf32_tflops: 10\nvector_tflops: 5\n"
                         "memory_gb_s: 500\nunits: 80\nlaunch_us: 1\nmatmul_efficiency: 1\n"
                         "memory_efficiency: 1\n";
  const auto json = run_json({"--config", PAL_SOURCE_DIR "/configs/nmt_small.yaml", "--set",
                              "data.synthetic=true", "--set", "data.source_vocab_size=60", "--set",
                              "data.target_vocab_size=50", "--bucket", "6,6", "--profile", file,
                              "--devices", "2", "--link", "pcie3"});
  ASSERT_TRUE(json["devices"].contains("joules")) << json["devices"];
  EXPECT_TRUE(json["devices"]["joules"].is_null()) << json["devices"];
}

TEST_F(PlanDevices, FasterLinksAreFaster) {
  const auto step = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"--devices", "8"});
    return plan(words)["time"]["step_ms"].get<double>();
  };
  const double ethernet = step({"--link", "100gbe"}), pcie = step({"--link", "pcie3"}),
               nvlink = step({"--link", "nvlink4"});
  EXPECT_GT(ethernet, pcie);
  EXPECT_GT(pcie, nvlink);
  const double nodes = step({"--per-node", "4", "--link", "nvlink4,100gbe"});
  EXPECT_TRUE(nodes > nvlink && nodes < ethernet) << nodes;
}

TEST_F(PlanDevices, RefusesWhatDoesNotFit) {
  EXPECT_NE(refused({"--devices", "4"}).find("add --link NAME (there are: 100gbe"),
            std::string::npos)
      << error_;
  EXPECT_NE(refused({"--link", "pcie3"}).find("--link: is of several devices; add --devices N"),
            std::string::npos)
      << error_;
  EXPECT_NE(refused({"--per-node", "2"}).find("--per-node: is of several devices"),
            std::string::npos)
      << error_;
  EXPECT_NE(refused({"--devices", "4", "--link", "pci3"}).find("did you mean pcie3?"),
            std::string::npos)
      << error_;
  EXPECT_NE(refused({"--devices", "0", "--link", "pcie3"}).find("--devices"), std::string::npos)
      << error_;
  EXPECT_NE(refused({"--devices", "4", "--link", "pcie3", "--set", "train.accumulate=6"})
                .find("train.accumulate: the 6 micro-batches of an update cannot be divided"),
            std::string::npos)
      << error_;
}

TEST(Joules, AreOfAllDevicesBusyOrWaiting) {
  DeviceProfile card;
  EXPECT_FALSE(joules_of(card, 4, 10, 4)) << "watts are not known";
  card.busy = 200, card.idle = 50;
  EXPECT_DOUBLE_EQ(*joules_of(card, 4, 10, 4), 4 * (200 * 6 + 50 * 4) * 1e-3);
  EXPECT_DOUBLE_EQ(*joules_of(card, 1, 10, 0), 2);
}

}  // namespace
}  // namespace pal::test
