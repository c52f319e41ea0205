// Runs of several ranks, as threads of a test: a small translator and a small network of images.
// Their exchanges are arranged for a link that is slow enough to have a queue of their own.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/files.h"
#include "tests/support/thread_group.h"
#include "train/loop/ranks_of_run.h"
#include "train/loop/trainer.h"
#include "train/tasks/make_task.h"

namespace pal::test {

namespace fs = std::filesystem;

using Sets = std::vector<std::string>;

inline constexpr const char* kTranslator =
    "model: {type: nmt, hidden: 24, embedding: 20, attention_size: 8, encoder_layers: 1,\n"
    "  decoder_layers: 1, dropout: 0.2}\n"
    "data: {synthetic: true, source_vocab_size: 60, target_vocab_size: 50, max_length: 12}\n"
    "train: {batch_size: 8, steps: 6, lr: 0.02, valid_every: 4, log_every: 1, accumulate: 4,\n"
    "  reduction: ordered, link: 1gbe}\n"
    "device: {threads: 1}\n";

inline constexpr const char* kImages =
    "model: {type: resnet, family: cifar, depth: 8, width: 4}\n"
    "data: {synthetic: true, classes: 4, image_size: 8, crop: random_resized}\n"
    "train: {batch_size: 4, steps: 4, lr: 0.02, valid_every: 2, log_every: 1, accumulate: 4,\n"
    "  reduction: ordered, optimizer: momentum, link: 1gbe}\n"
    "device: {threads: 1}\n";

class Ranks : public testing::Test {
 protected:
  TrainArgs args(const std::string& out, const Sets& sets, std::shared_ptr<Group> group) const {
    std::vector<Override> overrides;
    for (const std::string& set : sets) overrides.push_back(parse_set(set));
    TrainArgs a;
    a.group = group;
    a.config = with_ranks(parse_config(config_, "test.yaml", overrides), group ? group->size() : 1);
    if (group) a.config.per_node = group->per_node();
    a.name = "test";
    a.out = dir_ / out;
    a.resume = fs::exists(a.out / "last.safetensors");
    return a;
  }
  // Starts a run or goes on with it. Returns the bytes that all ranks have sent from the first to
  // the last of its updates, in all but the last.
  int64_t run(const std::string& out, int ranks, const Sets& sets = {}, int per_node = 0) {
    fs::create_directories(dir_ / out);
    std::atomic<int64_t> sent{0};
    test::as_ranks(
        ranks,
        [&](std::shared_ptr<Group> group) {
          const TrainArgs a = args(out, sets, group);
          Trainer trainer(a, make_task(a));
          if (!a.resume && (!group || group->rank() == 0)) trainer.task().save_files(a.out);
          const std::atomic<bool> stop{false};
          int64_t first = -1, last = 0;
          trainer.run(stop, [&] {
            last = group ? group->sent_bytes() : 0;
            if (first < 0) first = last;
            return true;
          });
          if (first >= 0) sent += last - first;
        },
        per_node);
    return sent;
  }
  std::string state(const std::string& out) const {
    return read_file(dir_ / out / "last.safetensors");
  }
  // What a metrics file says of steps, without times and places.
  std::vector<std::string> steps(const std::string& out) const {
    std::vector<std::string> found;
    std::ifstream in(dir_ / out / "metrics.jsonl");
    for (std::string line; std::getline(in, line);) {
      const auto row = nlohmann::json::parse(line);
      if (row["event"] != "step" && row["event"] != "valid") continue;
      std::string text;
      for (const char* key : {"step", "epoch", "loss", "lr", "grad_norm", "bleu", "top1"}) {
        if (row.contains(key)) text += std::string(key) + "=" + row[key].dump() + " ";
      }
      found.push_back(text);
    }
    return found;
  }
  // The bytes of a run's largest plan.
  int64_t planned(const std::string& out) const {
    std::ifstream in(dir_ / out / "metrics.jsonl");
    int64_t most = 0;
    for (std::string line; std::getline(in, line);) {
      const auto row = nlohmann::json::parse(line);
      if (row["event"] == "plan") most = std::max(most, row["total_bytes"].get<int64_t>());
    }
    return most;
  }
  // Of one rank and of each of these, with the same options; of the last also where weights are
  // divided.
  void same_for(const std::vector<int>& counts, const Sets& sets) {
    std::string words;
    for (const std::string& set : sets) words += set + " ";
    SCOPED_TRACE(words);
    const std::string alone = "alone" + std::to_string(++runs_);
    run(alone, 1, sets);
    for (const int ranks : counts) {
      const std::string out = alone + "-" + std::to_string(ranks);
      run(out, ranks, sets);
      EXPECT_TRUE(state(alone) == state(out)) << ranks << " ranks";
      EXPECT_EQ(steps(alone), steps(out)) << ranks << " ranks";
    }
    Sets divided = sets;
    divided.emplace_back("train.shard=weights");
    run(alone + "-weights", counts.back(), divided);
    EXPECT_TRUE(state(alone) == state(alone + "-weights")) << counts.back() << " ranks";
    EXPECT_EQ(steps(alone), steps(alone + "-weights")) << counts.back() << " ranks";
  }

  std::string config_ = kTranslator;
  const TemporaryFolder folder_;
  fs::path dir_ = folder_.path();
  int runs_ = 0;
};

}  // namespace pal::test
