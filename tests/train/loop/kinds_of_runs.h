// Short runs of every trainer, and what they leave that must not depend on what happened to them.
#pragma once
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "tests/train/loop/whole_runs.h"
#include "train/run_files/safetensors.h"

namespace pal {

struct KindOfRun {
  std::string name;
  std::vector<std::string> words;  // its configuration, and what is set in it
};

inline void PrintTo(const KindOfRun& kind, std::ostream* out) { *out << kind.name; }

// `settings`: "KEY=VALUE".
inline KindOfRun kind_of_run(const std::string& name, const std::string& config,
                             const std::vector<std::string>& settings) {
  KindOfRun kind{name, {config}};
  for (const std::string& each : settings) kind.words.insert(kind.words.end(), {"--set", each});
  return kind;
}

// Each with its small configuration's data, and less of everything.
inline std::vector<KindOfRun> trainers() {
  return {
      kind_of_run("nmt", "tiny.yaml", {"train.valid_every=2"}),
      kind_of_run(
          "transformer", "transformer_small",
          {"model.encoder_layers=1", "model.decoder_layers=1", "model.hidden=32", "model.ffn=32",
           "model.heads=2", "data.max_length=10", "data.vocab_min_count=30", "train.batch_size=8"}),
      kind_of_run("resnet", "resnet_small",
                  {"model.depth=8", "data.valid_count=20", "train.batch_size=8"}),
      kind_of_run(
          "deepspeech2", "deepspeech2_small",
          {"model.hidden=16", "model.conv_channels=2", "model.layers=1", "data.join_train=32",
           "data.join_eval=8", "data.join_least=1", "data.join_most=2", "train.batch_size=4"}),
      kind_of_run("bert", "bert_small",
                  {"model.layers=1", "model.hidden=32", "model.ffn=32", "model.heads=2",
                   "data.length=16", "data.vocab_min_count=30", "train.batch_size=8"}),
      kind_of_run(
          "zoo", "zoo_small",
          {"model.width=0.25", "data.image_size=32", "data.valid_count=20", "train.batch_size=8"}),
  };
}

class KindOfRunTest : public RunTest, public testing::WithParamInterface<KindOfRun> {
 protected:
  fs::path run() const { return dir_ / "run"; }

  // Of a run with a checkpoint after every `save_every` steps; one that has begun goes on.
  std::vector<std::string> arguments(int steps, int save_every) const {
    std::vector<std::string> all{"train", "--config"};
    all.insert(all.end(), GetParam().words.begin(), GetParam().words.end());
    for (const std::string& set :
         {"train.save_every=" + std::to_string(save_every), std::string("train.keep_last=2"),
          std::string("train.log_every=1"), std::string("device.threads=1")}) {
      all.insert(all.end(), {"--set", set});
    }
    all.insert(all.end(), {"--steps", std::to_string(steps), "--out", run().string()});
    if (fs::exists(run() / "config.yaml")) all.push_back("--resume");
    return all;
  }

  // By file, the bytes of every checkpoint.
  std::map<std::string, std::string> checkpoints() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::directory_iterator(run())) {
      if (entry.path().extension() == ".safetensors") {
        all[entry.path().filename().string()] = read_file(entry.path());
      }
    }
    return all;
  }
  void expect_checkpoints(const std::map<std::string, std::string>& expected) const {
    const auto found = checkpoints();
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [name, bytes] : expected) EXPECT_TRUE(found.at(name) == bytes) << name;
  }
  // Throws where a tensor of a checkpoint is not the one that was saved.
  void check_checkpoints() const {
    if (!fs::exists(run())) return;
    for (const auto& entry : fs::directory_iterator(run())) {
      if (entry.path().extension() != ".safetensors") continue;
      const SafetensorsFile file = SafetensorsFile::open(entry.path().string());
      for (const TensorView& tensor : file.tensors()) file.check(tensor);
    }
  }
};

inline std::string name_of_kind(const testing::TestParamInfo<KindOfRun>& each) {
  return each.param.name;
}

}  // namespace pal
