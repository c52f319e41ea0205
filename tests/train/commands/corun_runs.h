// What the tests of pal corun share: two small configurations, and runs of them together and alone.
#pragma once
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/train/loop/whole_runs.h"

namespace pal {

using Words = std::vector<std::string>;

inline Words lines_of(const std::string& text) {
  Words lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

class Corun : public RunTest {
 protected:
  Corun() {
    std::ofstream(dir_ / "text.yaml")
        << "model: {type: nmt, hidden: 8, embedding: 6, attention_size: 4, encoder_layers: 1,\n"
           "  decoder_layers: 1, dropout: 0.2}\n"
           "data: {synthetic: true, source_vocab_size: 20, target_vocab_size: 15, max_length: 5}\n"
           "train: {batch_size: 8, steps: 6, lr: 0.02, valid_every: 1000, log_every: 1}\n"
           "device: {type: cpu}\n";
    std::ofstream(dir_ / "image.yaml")
        << "model: {type: resnet, family: cifar, depth: 8, width: 4}\n"
           "data: {synthetic: true, classes: 4, image_size: 8}\n"
           "train: {batch_size: 8, steps: 6, optimizer: momentum, lr: 0.05, log_every: 1,\n"
           "  valid_every: 1000}\n"
           "device: {type: cpu, threads: 1}\n";
  }
  RunResult corun(Words more, int signal = 0, int after_ms = -1) {
    more.insert(more.begin(), "corun");
    const auto given = [&](const char* flag) { return std::count(more.begin(), more.end(), flag); };
    if (!given("--budget")) more.insert(more.end(), {"--budget", "1GB"});
    if (!given("--mode")) more.insert(more.end(), {"--mode", "unshared"});
    return pal(more, signal, after_ms);
  }
  void alone(const std::string& name, const std::string& out, Words more = {}) {
    more.insert(more.begin(), {"train", "--config", name, "--out", out});
    const RunResult r = pal(more);
    ASSERT_EQ(r.status, 0) << r.err;
  }
  void same_run(const std::string& a, const std::string& b) {
    const std::string weights = read_file(dir_ / a / "last.safetensors");
    EXPECT_GT(weights.size(), 1000u) << a;
    EXPECT_TRUE(weights == read_file(dir_ / b / "last.safetensors")) << a << ", " << b;
    EXPECT_EQ(losses(a), losses(b));
  }
  // The step rows without the plan's bytes: scratch memory grows with the threads.
  std::vector<nlohmann::json> losses(const std::string& run) {
    std::vector<nlohmann::json> rows;
    for (const std::string& row : steps(dir_ / run)) {
      rows.push_back(nlohmann::json::parse(row));
      rows.back().erase("peak_bytes");
    }
    return rows;
  }
  // Everything under the folder of the test.
  Words files() const {
    Words names;
    for (auto& entry : fs::recursive_directory_iterator(dir_)) names.push_back(entry.path());
    std::sort(names.begin(), names.end());
    return names;
  }
};

}  // namespace pal
