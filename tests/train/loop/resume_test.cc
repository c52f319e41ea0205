// Runs in this process: resumed equals uninterrupted, bit for bit, under every schedule, with
// averages and with patience; kept checkpoints; weights taken from other runs; what ends a run.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "tests/support/files.h"
#include "train/loop/ema.h"
#include "train/loop/trainer.h"
#include "train/run_files/safetensors.h"
#include "train/tasks/make_task.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

std::vector<float> floats(const SafetensorsFile& file, const std::string& name) {
  const TensorView* t = file.find(name);
  if (!t) throw std::runtime_error("no " + name);
  std::vector<float> out(t->bytes / sizeof(float));
  std::memcpy(out.data(), t->data, t->bytes);
  return out;
}

class Resume : public testing::Test {
 protected:
  TrainArgs args(const std::string& out, const std::vector<std::string>& sets) const {
    std::vector<Override> overrides;
    for (const std::string& set : sets) overrides.push_back(parse_set(set));
    TrainArgs a;
    a.config = parse_config(
        "model: {type: nmt, hidden: 8, embedding: 6, attention_size: 4, encoder_layers: 1,\n"
        "  decoder_layers: 1}\n"
        "data: {synthetic: true, source_vocab_size: 40, target_vocab_size: 30, max_length: 12}\n"
        "train: {batch_size: 8, steps: 11, lr: 0.02, clip_norm: 1, valid_every: 2, log_every: 1}\n"
        "device: {threads: 1}\n",
        "test.yaml", overrides);
    a.name = "test";
    a.out = dir_ / out;
    a.resume = fs::exists(a.out / "last.safetensors");
    return a;
  }
  // Starts a run or goes on with it; why it ended.
  std::string run(const std::string& out, const std::vector<std::string>& sets) {
    const TrainArgs a = args(out, sets);
    Trainer trainer(a, make_task(a));
    fs::create_directories(a.out);
    if (!a.resume) trainer.task().save_files(a.out);
    const std::atomic<bool> stop{false};
    const std::string reason = trainer.run(stop);
    state_ = trainer.state();
    return reason;
  }
  static std::vector<std::string> with(std::vector<std::string> sets, const std::string& more) {
    sets.push_back(more);
    return sets;
  }
  std::vector<nlohmann::json> rows(const std::string& out, const std::string& event) const {
    std::vector<nlohmann::json> found;
    std::ifstream in(dir_ / out / "metrics.jsonl");
    for (std::string line; std::getline(in, line);) {
      auto row = nlohmann::json::parse(line);
      if (row["event"] == event) found.push_back(row);
    }
    return found;
  }
  std::vector<double> rates(const std::string& out) const {
    std::vector<double> lr;
    for (auto& row : rows(out, "step")) lr.push_back(row["lr"]);
    return lr;
  }
  // Whole, and in parts. One that ends between two validations makes one more at its end, which may
  // leave another best.safetensors, but no trace in what is resumed.
  void same_when_resumed(const std::vector<std::string>& sets) {
    const std::string whole_reason = run("whole", sets);
    auto resumed = [&](const std::string& out, std::initializer_list<const char*> ends) {
      for (const char* steps : ends) run(out, with(sets, std::string("train.steps=") + steps));
      EXPECT_EQ(run(out, sets), whole_reason);
      EXPECT_TRUE(read_file(dir_ / "whole/last.safetensors") ==
                  read_file(dir_ / out / "last.safetensors"));
      EXPECT_EQ(rates("whole"), rates(out));
    };
    resumed("between", {"3", "5"});
    resumed("at", {"4", "8"});
    EXPECT_TRUE(read_file(dir_ / "whole/best.safetensors") ==
                read_file(dir_ / "at/best.safetensors"));
  }

  const TemporaryFolder folder_;
  const fs::path dir_ = folder_.path();
  TrainerState state_;
};

TEST_F(Resume, UnderEverySchedule) {
  for (const char* schedule : {"inverse_sqrt", "step", "cosine"}) {
    SCOPED_TRACE(schedule);
    fs::remove_all(dir_);
    same_when_resumed({std::string("train.schedule=") + schedule, "train.warmup_steps=2",
                       "train.lr_decay_every=3", "train.schedule_steps=10", "train.lr_min=0.001"});
    const auto lr = rates("whole");
    ASSERT_EQ(lr.size(), 11u);
    EXPECT_LT(lr.back(), 0.011);  // the schedule did something
  }
}

TEST_F(Resume, UnderPlateauWhoseStateIsInTheCheckpoint) {
  // A rate of nothing (almost) never makes a new best after the first.
  same_when_resumed(
      {"train.schedule=plateau", "train.lr_patience=1", "train.lr=1e-30", "train.valid_every=2"});
  const auto lr = rates("whole");
  ASSERT_EQ(lr.size(), 11u);
  EXPECT_FLOAT_EQ(float(lr[3]), 1e-30f);
  EXPECT_FLOAT_EQ(float(lr[4]), 0.5e-30f);  // the 4th update's validation had no new best
  EXPECT_FLOAT_EQ(float(lr[10]), 0.0625e-30f);
  EXPECT_EQ(state_.plateau.decays, 4);
}

TEST_F(Resume, WithAveragesAccumulationAndNesterov) {
  same_when_resumed({"train.ema=0.9"});
  fs::remove_all(dir_);
  same_when_resumed({"train.ema=0.9", "train.accumulate=2", "train.optimizer=nesterov"});
}

TEST_F(Resume, PatienceEndsTheRunAndMoreOfItGoesOn) {
  const std::vector<std::string> sets{"train.lr=1e-30", "train.patience=3", "train.steps=40"};
  EXPECT_EQ(run("run", sets), "patience");
  EXPECT_EQ(state_.step, 8);  // best at 2; none at 4, 6, 8
  EXPECT_EQ(rows("run", "end").back()["reason"], "patience");
  EXPECT_EQ(run("run", sets), "patience");  // at once
  EXPECT_EQ(state_.step, 8);
  EXPECT_EQ(run("run", with(sets, "train.patience=5")), "patience");
  EXPECT_EQ(state_.step, 12);
  EXPECT_EQ(run("run", with(sets, "train.patience=null")), "steps");
  same_when_resumed(sets);
}

TEST_F(Resume, AnUnscheduledLastValidationMayImproveTheBestButLeavesNoTrace) {
  run("run", {"train.steps=3", "train.valid_every=100"});
  EXPECT_TRUE(fs::exists(dir_ / "run/best.safetensors"));
  EXPECT_EQ(rows("run", "valid").size(), 1u);
  EXPECT_FALSE(state_.has_best);
}

TEST_F(Resume, AveragesAreTheCorrectedSumOfTheWeightsSoFar) {
  const double decay = 0.75, add = double(float(1 - decay));
  // One checkpoint an update gives the weights; the average follows from them by its definition.
  run("run", {"train.ema=0.75", "train.steps=4", "train.save_every=1", "train.keep_last=9",
              "train.valid_every=4"});
  std::map<std::string, std::vector<double>> sum;
  std::vector<std::string> names;
  const auto best = SafetensorsFile::open((dir_ / "run/best.safetensors").string());
  for (const TensorView& t : best.tensors()) names.push_back(t.name);
  ASSERT_GT(names.size(), 5u);
  for (int step = 1; step <= 4; ++step) {
    const auto file = SafetensorsFile::open(
        (dir_ / "run" / ("step-" + std::to_string(step) + ".safetensors")).string());
    for (const std::string& name : names) {
      const auto w = floats(file, name), kept = floats(file, kEmaPrefix + name);
      auto& s = sum[name];
      s.resize(w.size());
      for (size_t i = 0; i < w.size(); ++i) {
        s[i] += add * (double(w[i]) - s[i]);
        ASSERT_NEAR(s[i], double(kept[i]), 1e-6) << name;
      }
    }
  }
  bool differs = false;
  const auto last = SafetensorsFile::open((dir_ / "run/last.safetensors").string());
  for (const std::string& name : names) {
    const auto average = floats(best, name), w = floats(last, name);
    for (size_t i = 0; i < w.size(); ++i) {
      EXPECT_NEAR(average[i], sum[name][i] / (1 - std::pow(1 - add, 4)), 1e-5) << name;
      differs |= std::abs(average[i] - w[i]) > 1e-4f;
    }
  }
  EXPECT_TRUE(differs);  // validation's weights are not training's
  // Averages change nothing in the weights themselves.
  run("plain", {"train.steps=4", "train.valid_every=4"});
  const auto plain = SafetensorsFile::open((dir_ / "plain/last.safetensors").string());
  for (const std::string& name : names) EXPECT_EQ(floats(plain, name), floats(last, name)) << name;
}

TEST_F(Resume, KeepsTheLastCheckpointsWhole) {
  const std::vector<std::string> sets{"train.keep_last=2", "train.save_every=3"};
  run("run", with(sets, "train.steps=10"));
  auto kept = [&] {
    std::vector<std::string> names;
    for (auto& entry : fs::directory_iterator(dir_ / "run")) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("step-")) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  };
  EXPECT_EQ(kept(), (std::vector<std::string>{"step-10.safetensors", "step-9.safetensors"}));
  EXPECT_EQ(read_file(dir_ / "run/step-10.safetensors"), read_file(dir_ / "run/last.safetensors"));
  const std::string ten = read_file(dir_ / "run/step-10.safetensors");
  std::ofstream(dir_ / "run/step-best.safetensors") << "the user's";
  run("run", with(sets, "train.steps=13"));
  EXPECT_EQ(kept(), (std::vector<std::string>{"step-12.safetensors", "step-13.safetensors",
                                              "step-best.safetensors"}));
  EXPECT_TRUE(ten != read_file(dir_ / "run/last.safetensors"));
}

TEST_F(Resume, InitFromTakesAnotherRunsWeights) {
  run("first", {"train.steps=4", "train.valid_every=2"});
  const std::string folder = (dir_ / "first").string();
  for (const std::string& from : {folder, folder + "/last.safetensors"}) {
    const TrainArgs a = args("second", {"train.init_from=" + from, "train.seed=7"});
    Trainer trainer(a, make_task(a));
    const auto file = SafetensorsFile::open(from == folder ? folder + "/best.safetensors" : from);
    int weights = 0;
    for (const StateTensor& slot : trainer.programs().state()) {
      if (slot.role != Role::weight) continue;
      const auto want = floats(file, slot.name);
      EXPECT_EQ(std::memcmp(want.data(), slot.data, want.size() * sizeof(float)), 0) << slot.name;
      ++weights;
    }
    EXPECT_GT(weights, 5);
    EXPECT_EQ(trainer.state().step, 0);  // a new run, not the old one gone on with
  }
}

TEST_F(Resume, InitFromOfAnotherModelListsTheMismatches) {
  run("first", {"train.steps=2"});
  const std::string from = "train.init_from=" + (dir_ / "first").string();
  auto fault = [&](const std::vector<std::string>& sets) -> std::string {
    try {
      const TrainArgs a = args("second", sets);
      Trainer trainer(a, make_task(a));
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  };
  std::string said = fault({from, "model.embedding=10"});
  EXPECT_NE(said.find("train.init_from: "), std::string::npos) << said;
  EXPECT_NE(said.find(",6]"), std::string::npos) << said;
  EXPECT_NE(said.find(",10]"), std::string::npos) << said;
  EXPECT_NE(fault({from, "model.decoder_layers=2"}).find(" is missing"), std::string::npos);
  run("deep", {"train.steps=2", "model.decoder_layers=2"});
  said = fault({"train.init_from=" + (dir_ / "deep/last.safetensors").string()});
  EXPECT_NE(said.find(" is not in the model"), std::string::npos) << said;
  EXPECT_EQ(said.find("optimizer/"), std::string::npos) << said;
  said = fault({"train.init_from=" + dir_.string()});
  EXPECT_NE(said.find("best.safetensors"), std::string::npos) << said;
  EXPECT_NE(fault({"train.init_from=nowhere.safetensors"}).find("nowhere"), std::string::npos);
}

TEST_F(Resume, WritesItsReportAndEvents) {
  run("run", {"train.steps=5"});
  const std::string page = read_file(dir_ / "run/report.html");
  EXPECT_NE(page.find("ended: steps"), std::string::npos);
  EXPECT_NE(page.find("BLEU"), std::string::npos);
  EXPECT_NE(page.find("optimizer state"), std::string::npos);
  int files = 0;
  for (auto& entry : fs::directory_iterator(dir_ / "run")) {
    files += entry.path().filename().string().starts_with("events.out.tfevents.");
  }
  EXPECT_EQ(files, 1);
}

}  // namespace
}  // namespace pal
