// pal corun on a GPU, emulated or (tests/gpu) real: whole runs beside each other leave the files
// that each leaves alone, also stopped, or failed, and resumed.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/emulation/fixture.h"
#include "tests/support/files.h"
#include "tests/support/variable.h"
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
  static std::string pal(const std::vector<std::string>& words, int exit_code = 0) {
    const Request request = parse_command_line("pal", words);
    testing::internal::CaptureStdout();
    int code = -1;
    std::string error;
    try {
      code = request.run();
    } catch (const std::exception& e) {
      error = e.what();
    }
    const std::string printed = testing::internal::GetCapturedStdout();
    EXPECT_EQ(code, exit_code) << error;
    return printed;
  }
  void alone(const std::string& name, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"train", "--config", file(name + ".yaml"), "--out", file(name)};
    words.insert(words.end(), more.begin(), more.end());
    pal(words);
  }
  // Both jobs, into a folder, within what lies between the least and all.
  void both(const std::string& out, const std::string& mode, int64_t budget,
            const std::vector<std::string>& more, int exit_code = 0) {
    std::vector<std::string> words{"corun", file("text.yaml"), file("other.yaml"),
                                   "--out", file(out),         "--mode",
                                   mode,    "--budget",        std::to_string(budget)};
    words.insert(words.end(), more.begin(), more.end());
    pal(words, exit_code);
  }
  // Rows of steps, of both jobs.
  int64_t steps(const std::string& out) const {
    int64_t rows = 0;
    for (const char* job : {"/1", "/2"}) {
      std::ifstream in(dir_.path() / (out + job) / "metrics.jsonl");
      for (std::string row; std::getline(in, row);) rows += row.find("step_ms") != row.npos;
    }
    return rows;
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
    both(out, mode, mode == "turns" ? least : least * 5 / 4, {});
    same_run("text", out + "/1"), same_run("other", out + "/2");
  }
}

// Beside another job's kernels a product's time means nothing: each run keeps what the library
// names first for itself, and the machine learns nothing.
TEST_F(CorunOnGpu, TimesNoProducts) {
  if (emulation::real()) GTEST_SKIP() << "a real library's algorithms are not known";
  emulation::settings().blas_ms = {400, 10};
  const int64_t least = bytes("turns");  // each job alone: what that takes may be timed
  const Variable cache("XDG_CACHE_HOME", file("cache"));
  both("both", "turns", least, {"--steps", "1"});
  EXPECT_FALSE(fs::exists(file("cache") + "/palimpsest/algorithms.txt"));
  EXPECT_GT(read_file(dir_.path() / "both/1/algorithms.txt").size(), 100u);
  EXPECT_GT(read_file(dir_.path() / "both/2/algorithms.txt").size(), 100u);
}

// A signal comes after some steps of either job, twice.
TEST_F(CorunOnGpu, StoppedAndResumedRunsHaveTheBitsOfEachAlone) {
  // A card's steps are over sooner than who watches them sees.
  const bool fast = emulation::real();
  const std::string count = fast ? "400" : "9";
  const std::vector<std::string> length{"--steps", count}, resumed{"--steps", count, "--resume"};
  alone("text", length), alone("other", length);
  const int64_t least = bytes("turns");
  int runs = 0;
  for (const std::string mode : {"shared", "turns"}) {
    emulation::settings().order = runs == 0 ? Order::shuffled : Order::backward;
    const std::string out = "stopped" + std::to_string(++runs);
    const int64_t budget = mode == "turns" ? least : least * 5 / 4;
    for (const int64_t after : {1 + runs, (fast ? 200 : 6) + runs}) {
      std::atomic<bool> over{false};
      std::jthread signals([&] {
        while (steps(out) < after && !over) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        if (!over) std::raise(SIGTERM);
      });
      both(out, mode, budget, fs::exists(dir_.path() / out) ? resumed : length, 130);
      over = true;
    }
    both(out, mode, budget, resumed);
    same_run("text", out + "/1"), same_run("other", out + "/2");
  }
}

// The second job's checkpoint cannot be written, as on a full disk; then it can.
TEST_F(CorunOnGpu, AJobThatFailedGoesOnWithTheBitsThatItHasAlone) {
  const std::vector<std::string> length{"--steps", "8"};
  alone("text", length), alone("other", length);
  const int64_t least = bytes("turns");
  int runs = 0;
  for (const std::string mode : {"shared", "turns"}) {
    emulation::settings().order = runs == 0 ? Order::backward : Order::shuffled;
    const std::string out = "failed" + std::to_string(++runs);
    const int64_t budget = mode == "turns" ? least : least * 5 / 4;
    const std::vector<std::string> saves{"--set", "2:train.save_every=2"};
    const auto with = [&](std::vector<std::string> words) {
      words.insert(words.end(), saves.begin(), saves.end());
      return words;
    };
    both(out, mode, budget, with({"--steps", "4"}));
    const fs::path in_the_way = dir_.path() / out / "2/last.safetensors.tmp";
    fs::create_directories(in_the_way);
    both(out, mode, budget, with({"--steps", "8", "--resume"}), 1);
    same_run("text", out + "/1");
    fs::remove(in_the_way);
    both(out, mode, budget, with({"--steps", "8", "--resume"}));
    same_run("text", out + "/1"), same_run("other", out + "/2");
  }
}

// A NaN in the middle of a step ends the second; the first has its bits.
TEST_F(CorunOnGpu, AJobThatDivergesLeavesTheOtherItsBits) {
  alone("text", {"--steps", "8"});
  const int64_t least = bytes("turns");
  for (const Order order : {Order::backward, Order::shuffled}) {
    emulation::settings().order = order;
    const std::string out = "nan" + std::to_string(int(order));
    both(out, "shared", least * 5 / 4,
         {"--set", "1:train.steps=8", "--set", "2:train.steps=400", "--set", "2:train.lr=1000",
          "--set", "2:train.optimizer=sgd", "--set", "2:train.weight_decay=1000"},
         1);
    same_run("text", out + "/1");
  }
}

}  // namespace
}  // namespace pal::test
