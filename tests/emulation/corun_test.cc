// pal corun on a GPU, emulated or (tests/gpu) real: whole runs beside each other leave the files
// that each leaves alone.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/emulation/fixture.h"
#include "tests/support/files.h"
#include "train/commands/cli.h"

namespace pal::test {
namespace {

namespace fs = std::filesystem;
using emulation::Order;

class CorunOnGpu : public OnGpu {
 protected:
  void prepare() override {
    for (const char* part : {"train", "valid", "test"}) {
      std::ofstream en(dir_.path() / (std::string(part) + ".en"));
      std::ofstream vi(dir_.path() / (std::string(part) + ".vi"));
      for (int i = 0; i < (*part == 't' && part[1] == 'r' ? 24 : 3); ++i) {
        en << "a" << i % 5 << " b" << i % 3 << (i % 2 ? "\n" : " c\n");
        vi << "x" << i % 5 << (i % 3 ? " y\n" : " y z\n");
      }
    }
    std::ofstream(dir_.path() / "text.yaml")
        << "model: {type: nmt, hidden: 8, embedding: 6, attention_size: 4, encoder_layers: 1,\n"
           "  decoder_layers: 1, dropout: 0.2}\n"
           "data: {root: "
        << dir_.path()
        << "}\n"
           "train: {batch_size: 8, steps: 3, lr: 0.02, valid_every: 2, log_every: 1}\n"
           "device: {type: cuda}\n";
    std::ofstream(dir_.path() / "other.yaml")
        << "model: {type: transformer, hidden: 8, heads: 2, encoder_layers: 1, decoder_layers: 1,\n"
           "  ffn: 12, dropout: 0.1}\n"
           "data: {root: "
        << dir_.path()
        << "}\n"
           "train: {batch_size: 8, steps: 3, lr: 0.02, valid_every: 2, log_every: 1}\n"
           "device: {type: cuda}\n";
  }

  std::string file(const std::string& name) const { return (dir_.path() / name).string(); }
  // What a command prints.
  static std::string pal(const std::vector<std::string>& words) {
    const Request request = parse_command_line("pal", words);
    testing::internal::CaptureStdout();
    EXPECT_EQ(request.run(), 0);
    return testing::internal::GetCapturedStdout();
  }
  void alone(const std::string& name) {
    pal({"train", "--config", file(name + ".yaml"), "--out", file(name)});
  }
  int64_t bytes(const std::string& mode) {
    const auto plan = nlohmann::json::parse(
        pal({"corun", file("text.yaml"), file("other.yaml"), "--out", file("plan"), "--mode", mode,
             "--budget", "1GB", "--dry-run", "--json"}));
    return plan["memory"]["bytes"].get<int64_t>();
  }
  // The losses, and the weights with the optimizer's state.
  void same_run(const std::string& a, const std::string& b) {
    const std::string weights = read_file(dir_.path() / a / "last.safetensors");
    EXPECT_GT(weights.size(), 1000u);
    EXPECT_TRUE(weights == read_file(dir_.path() / b / "last.safetensors")) << a << ", " << b;
    EXPECT_EQ(losses(a), losses(b)) << a << ", " << b;
  }
  std::vector<double> losses(const std::string& run) const {
    std::ifstream rows(dir_.path() / run / "metrics.jsonl");
    std::vector<double> losses;
    for (std::string row; std::getline(rows, row);) {
      const auto json = nlohmann::json::parse(row);
      if (json["event"] == "step" || json.contains("loss"))
        losses.push_back(json["loss"].get<double>());
    }
    EXPECT_GE(losses.size(), 3u);
    return losses;
  }

  TemporaryFolder dir_;
};

TEST_F(CorunOnGpu, RunsHaveTheBitsOfEachAlone) {
  alone("text"), alone("other");
  const int64_t least = bytes("turns");
  int runs = 0;
  for (const std::string mode : {"turns", "shared", "auto"}) {
    const Order orders[] = {Order::forward, Order::backward, Order::shuffled};
    emulation::settings().order = orders[runs % 3];
    const std::string out = "both" + std::to_string(++runs);
    const int64_t budget = mode == "turns" ? least : least * 5 / 4;
    pal({"corun", file("text.yaml"), file("other.yaml"), "--out", file(out), "--mode", mode,
         "--budget", std::to_string(budget)});
    same_run("text", out + "/1"), same_run("other", out + "/2");
  }
}

}  // namespace
}  // namespace pal::test
