// Whole runs of the program itself: started, killed, resumed, interrupted, and refused.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/train/loop/whole_runs.h"
#include "train/config/config.h"

namespace pal {
namespace {

// Killed after the last checkpoint and before the validation and the mean that come behind it.
TEST_F(RunTest, WhatComesBehindTheLastStepIsMadeUp) {
  const std::vector<std::string> args{"train",
                                      "--config",
                                      "tiny.yaml",
                                      "--steps",
                                      "12",
                                      "--set",
                                      "train.valid_every=5",
                                      "--set",
                                      "train.average_last=2",
                                      "--set",
                                      "train.save_every=4"};
  auto into = [&](const char* out, std::vector<std::string> more) {
    std::vector<std::string> all = args;
    all.insert(all.end(), {"--out", out});
    all.insert(all.end(), more.begin(), more.end());
    return pal(all);
  };
  ASSERT_EQ(into("whole", {}).status, 0);
  fs::copy(dir_ / "whole", dir_ / "killed", fs::copy_options::recursive);
  ASSERT_TRUE(fs::remove(dir_ / "killed/average.safetensors"));
  const std::string rows = read_file(dir_ / "killed/metrics.jsonl");
  const size_t cut = rows.find(R"({"event":"valid","step":12)");
  ASSERT_NE(cut, std::string::npos);
  std::ofstream(dir_ / "killed/metrics.jsonl", std::ios::binary) << rows.substr(0, cut);
  const RunResult r = into("killed", {"--resume"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(read_file(dir_ / "whole/average.safetensors") ==
              read_file(dir_ / "killed/average.safetensors"));
  const std::string made_up = read_file(dir_ / "killed/metrics.jsonl");
  const size_t end = rows.find(R"({"event":"end")");
  EXPECT_EQ(made_up.substr(0, end), rows.substr(0, end));
  // A run that was done has nothing to make up.
  fs::remove(dir_ / "killed/average.safetensors");
  ASSERT_EQ(into("killed", {"--resume"}).status, 0);
  EXPECT_FALSE(fs::exists(dir_ / "killed/average.safetensors"));
}

TEST_F(RunTest, ARunWithoutItsLastCheckpointIsNotBegunAnew) {
  ASSERT_EQ(pal({"train", "--config", "tiny.yaml", "--out", "run", "--steps", "6", "--set",
                 "train.keep_last=2", "--set", "train.save_every=3"})
                .status,
            0);
  const std::string rows = read_file(dir_ / "run/metrics.jsonl");
  fs::remove(dir_ / "run/last.safetensors");
  const RunResult r = pal({"train", "--resume", "--out", "run"});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("no last.safetensors to resume from; copy a step-N"), std::string::npos)
      << r.err;
  EXPECT_EQ(read_file(dir_ / "run/metrics.jsonl"), rows);
}

TEST_F(RunTest, AFoldersNameNeedNotBeText) {
  const RunResult r =
      pal({"train", "--config", "tiny.yaml", "--steps", "1", "--json", "--out", "b\xff"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(nlohmann::json::accept(r.out)) << r.out;
}

TEST_F(RunTest, AResumedRunIsNamedByItsFolder) {
  const auto titled = [&](const std::string& title) {
    return read_file(dir_ / "named/report.html").find("<title>" + title) != std::string::npos;
  };
  ASSERT_EQ(pal({"train", "--config", "tiny.yaml", "--out", "named", "--steps", "2"}).status, 0);
  EXPECT_TRUE(titled("tiny"));
  ASSERT_EQ(pal({"train", "--resume", "--out", "named", "--steps", "4"}).status, 0);
  EXPECT_TRUE(titled("named"));
}

TEST_F(RunTest, ALanguageModelIsEvaluatedAloneAndSearchesNothing) {
  ASSERT_EQ(pal({"train", "--config", "bert_small", "--out", "run", "--steps", "1", "--set",
                 "train.batch_size=4", "--set", "data.length=8", "--set", "model.layers=1", "--set",
                 "model.hidden=8", "--set", "model.ffn=8", "--set", "model.heads=1"})
                .status,
            0);
  EXPECT_EQ(pal({"eval", "--model", "run"}).status, 0);
  const RunResult two = pal({"eval", "--model", "run,run"});
  EXPECT_EQ(two.status, 2);
  EXPECT_NE(two.err.find("one at a time"), std::string::npos) << two.err;
  const RunResult beam = pal({"eval", "--model", "run", "--beam", "77"});
  EXPECT_EQ(beam.status, 2);
  EXPECT_NE(beam.err.find("--beam, --length-penalty: "), std::string::npos) << beam.err;
}

TEST_F(RunTest, WhatCannotBePrintedFails) {
  for (const char* command :
       {"plan --config bert_small", "plan --config bert_small --json", "reproduce --list"}) {
    const std::string line =
        std::string(PAL_BINARY) + " " + command + " > /dev/full 2> " + (dir_ / "err").string();
    EXPECT_EQ(WEXITSTATUS(std::system(line.c_str())), 1) << command;
    EXPECT_NE(read_file(dir_ / "err").find("standard output: cannot be written"),
              std::string::npos);
  }
}

TEST_F(RunTest, AFullDiskLeavesThePreviousCheckpointWhole) {
  ASSERT_EQ(pal({"train", "--config", "tiny.yaml", "--out", "whole", "--steps", "12"}).status, 0);
  ASSERT_EQ(pal({"train", "--config", "tiny.yaml", "--out", "full", "--steps", "7"}).status, 0);
  const fs::path checkpoint = dir_ / "full/last.safetensors";
  const std::string before = read_file(checkpoint);
  // No file may grow beyond half a checkpoint: rows can still be written, weights cannot.
  file_limit_ = int64_t(before.size() / 2);
  const RunResult full = pal({"train", "--resume", "--out", "full", "--steps", "12"});
  file_limit_ = 0;
  EXPECT_EQ(full.status, 1) << full.err;
  EXPECT_NE(full.err.find("the previous file, if any, is untouched"), std::string::npos)
      << full.err;
  EXPECT_TRUE(read_file(checkpoint) == before);
  EXPECT_FALSE(fs::exists(checkpoint.string() + ".tmp"));
  const RunResult after = pal({"train", "--resume", "--out", "full", "--steps", "12"});
  ASSERT_EQ(after.status, 0) << after.err;
  EXPECT_TRUE(read_file(dir_ / "whole/last.safetensors") == read_file(checkpoint));
  EXPECT_EQ(steps(dir_ / "whole"), steps(dir_ / "full"));
}

TEST_F(RunTest, SigtermSavesAndExits130) {
  RunResult r;
  for (int wait = 300; wait < 20000; wait *= 2) {  // long enough to have begun
    fs::remove_all(dir_ / "run");
    r = pal({"train", "--config", "tiny.yaml", "--out", "run", "--steps", "100000", "--set",
             "train.save_every=1000000"},
            SIGTERM, wait);
    if (r.status == 130) break;
  }
  ASSERT_EQ(r.status, 130) << r.err;
  EXPECT_NE(r.err.find("--resume"), std::string::npos) << r.err;
  const int64_t step = nlohmann::json::parse(steps(dir_ / "run").back())["step"];
  const std::string to = std::to_string(step + 3);
  r = pal({"train", "--resume", "--out", "run", "--steps", to});
  ASSERT_EQ(r.status, 0) << r.err;
  ASSERT_EQ(pal({"train", "--config", "tiny.yaml", "--out", "whole", "--steps", to, "--set",
                 "train.save_every=1000000"})
                .status,
            0);
  EXPECT_TRUE(read_file(dir_ / "whole/last.safetensors") ==
              read_file(dir_ / "run/last.safetensors"));
}

// Every other value of the section memory's switches and choices that this version has and that is
// declared to leave results as they are, as --set takes it.
std::vector<std::string> lossless_memory_options() {
  std::vector<std::string> sets;
  const MemoryConfig memory;
  for (const AnyOption* option : memory.options()) {
    const std::string key = "memory." + option->name, now = yaml_text(option->value());
    std::vector<std::string> values = option->rules.choices;
    if (std::holds_alternative<bool>(option->value())) values = {"true", "false"};
    for (const Available& there_is : available_values()) {
      if (there_is.key == key) values = there_is.values;
    }
    const auto& lossy = option->rules.lossy;
    if (lossy == option->rules.choices && !lossy.empty()) continue;  // all of its values round
    if (option->name == "allow") continue;                           // that is what it is for
    EXPECT_NE(option->rules.effect, Effect::results) << key;
    const bool list = std::holds_alternative<std::vector<std::string>>(option->value());
    for (const std::string& value : values) {
      if (value == now || std::find(lossy.begin(), lossy.end(), value) != lossy.end()) continue;
      sets.push_back(key + "=" + (list ? "[" + value + "]" : value));
    }
  }
  return sets;
}

TEST_F(RunTest, LosslessMemoryOptionsAndThreadsLeaveTheSameBits) {
  auto weights = [&](const std::string& name, std::vector<std::string> sets) {
    std::vector<std::string> args{"train", "--config", "tiny.yaml", "--steps", "12", "--out", name};
    for (auto& s : sets) args.insert(args.end(), {"--set", s});
    const RunResult r = pal(args);
    EXPECT_EQ(r.status, 0) << r.err;
    return read_file(dir_ / name / "last.safetensors");
  };
  const std::string plain = weights("a", {});
  EXPECT_GT(plain.size(), 1000u);
  EXPECT_TRUE(plain == weights("b", {"device.threads=2"}));
  EXPECT_FALSE(plain == weights("c", {"train.seed=2"}));
  int tried = 0;
  for (const std::string& set : lossless_memory_options()) {
    std::vector<std::string> sets{set};
    if (set.starts_with("memory.manager=")) sets.push_back("memory.budget=1GB");
    EXPECT_TRUE(plain == weights("d" + std::to_string(tried++), sets)) << set;
  }
  EXPECT_GE(tried, 9);
  EXPECT_FALSE(plain == weights("e", {"memory.encode=[dpr_fp8]"}));
}

TEST_F(RunTest, AccumulationLearnsAndResumes) {
  auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> args{"train",
                                  "--config",
                                  "tiny.yaml",
                                  "--set",
                                  "train.accumulate=3",
                                  "--set",
                                  "train.clip_value=null",
                                  "--set",
                                  "train.clip_norm=1.0"};
    args.insert(args.end(), more.begin(), more.end());
    const RunResult r = pal(args);
    EXPECT_EQ(r.status, 0) << r.err;
  };
  run({"--out", "whole", "--steps", "8"});
  run({"--out", "parts", "--steps", "5"});
  run({"--out", "parts", "--steps", "8", "--resume"});
  EXPECT_TRUE(read_file(dir_ / "whole/last.safetensors") ==
              read_file(dir_ / "parts/last.safetensors"));
  auto rows = steps(dir_ / "whole");
  EXPECT_LT(nlohmann::json::parse(rows.back())["loss"], nlohmann::json::parse(rows[0])["loss"]);
}

TEST_F(RunTest, BadInputIsOneClearLineAndExit2) {
  std::ofstream(dir_ / "a.en") << "one\ntwo\n";
  std::ofstream(dir_ / "b.vi") << "eins\n";
  std::ofstream(dir_ / "bad.vi") << "eins\nzw\xff"
                                    "ei\n";
  const std::string files = "data.synthetic=false";
  struct Case {
    std::vector<std::string> sets;
    std::string says;
  };
  const std::vector<Case> cases{
      {{"train.batchsize=3"}, "did you mean train.batch_size"},
      {{"train.batch_size=many"}, "train.batch_size"},
      {{files, "data.root=nowhere"}, "nowhere"},
      {{files, "data.train_source=a.en", "data.train_target=b.vi"}, "b.vi"},
      {{files, "data.train_source=a.en", "data.train_target=bad.vi"},
       "bad.vi (data.train_target): line 2"},
      {{"memory.manager=delta"}, "memory.manager"},
      {{"device.type=cuda"}, "device"},
  };
  for (const Case& c : cases) {
    std::vector<std::string> args{"train", "--config", "tiny.yaml", "--out", "bad"};
    for (auto& s : c.sets) args.insert(args.end(), {"--set", s});
    const RunResult r = pal(args);
    EXPECT_EQ(r.status, 2) << c.says;
    EXPECT_NE(r.err.find(c.says), std::string::npos) << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_EQ(r.out, "");
    EXPECT_FALSE(fs::exists(dir_ / "bad"));
  }
}

TEST_F(RunTest, ARunIsNotOverwrittenAndOnlyResumedAsItWas) {
  ASSERT_EQ(pal({"train", "--config", "tiny.yaml", "--steps", "2", "--out", "run"}).status, 0);
  const std::string before = read_file(dir_ / "run/last.safetensors");
  RunResult r = pal({"train", "--config", "tiny.yaml", "--steps", "3", "--out", "run"});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("--resume"), std::string::npos) << r.err;
  r = pal({"train", "--config", "tiny.yaml", "--steps", "3", "--out", "run", "--resume", "--set",
           "train.lr=0.5"});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("train.lr"), std::string::npos) << r.err;
  EXPECT_TRUE(before == read_file(dir_ / "run/last.safetensors"));

  // Where validations steer the learning rate, how often they come alters results too.
  ASSERT_EQ(pal({"train", "--config", "tiny.yaml", "--steps", "2", "--out", "steered", "--set",
                 "train.schedule=plateau"})
                .status,
            0);
  r = pal(
      {"train", "--steps", "3", "--out", "steered", "--resume", "--set", "train.valid_every=1"});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("train.valid_every"), std::string::npos) << r.err;
  EXPECT_EQ(
      pal({"train", "--steps", "3", "--out", "run", "--resume", "--set", "train.valid_every=1"})
          .status,
      0);

  std::ofstream(dir_ / "run/last.safetensors", std::ios::binary) << before.substr(0, 500);
  r = pal({"train", "--steps", "3", "--out", "run", "--resume"});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("last.safetensors"), std::string::npos) << r.err;
}

TEST_F(RunTest, ARunStoppedBeforeItsFirstCheckpointStartsAgain) {
  RunResult r = pal({"train", "--config", "tiny.yaml", "--steps", "2", "--out", "run", "--resume"});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("holds no run"), std::string::npos) << r.err;
  ASSERT_EQ(pal({"train", "--config", "tiny.yaml", "--steps", "2", "--out", "run"}).status, 0);
  const std::string whole = read_file(dir_ / "run/last.safetensors");
  fs::remove(dir_ / "run/last.safetensors");
  r = pal({"train", "--config", "tiny.yaml", "--steps", "2", "--out", "run", "--resume"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(whole == read_file(dir_ / "run/last.safetensors"));
}

TEST_F(RunTest, ADryRunChangesNothingInTheRunsFolder) {
  ASSERT_EQ(pal({"train", "--config", "tiny.yaml", "--steps", "4", "--out", "run", "--set",
                 "train.keep_last=3"})
                .status,
            0);
  const auto look = [&] {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(dir_ / "run")) {
      files[entry.path().filename().string()] = read_file(entry.path());
    }
    return files;
  };
  const auto before = look();
  ASSERT_TRUE(before.contains("step-3.safetensors"));
  const RunResult r =
      pal({"train", "--out", "run", "--resume", "--dry-run", "--set", "train.keep_last=1"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(look() == before);
}

TEST_F(RunTest, ATooSmallBudgetExits3AndSaysByHowMuch) {
  const RunResult r =
      pal({"plan", "--config", "tiny.yaml", "--budget", "10KiB", "--set", "memory.auto=false"});
  EXPECT_EQ(r.status, 3);
  EXPECT_NE(r.err.find("over the budget"), std::string::npos) << r.err;
}

TEST_F(RunTest, PlanPrintsOneObject) {
  const RunResult r = pal({"plan", "--config", "tiny.yaml", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto plan = nlohmann::json::parse(r.out);
  EXPECT_GE(plan["bytes"]["arena"], plan["bytes"]["lower_bound"]);
  EXPECT_GT(plan["baselines"]["framework"], plan["baselines"]["ours"]);
  EXPECT_GT(plan["program"]["nodes"], 100);
}

// A card's memory is no budget to what fits it anyway: copies that cost no time are planned.
TEST_F(RunTest, APlanForACardSwapsWhatCostsNoTime) {
  const auto total = [&](const std::string& swap) {
    const RunResult r = pal({"plan", "--config", "resnet_small", "--profile", "a100_80", "--set",
                             "memory.swap=" + swap, "--json"});
    EXPECT_EQ(r.status, 0) << r.err;
    return nlohmann::json::parse(r.out)["bytes"]["total"].get<int64_t>();
  };
  EXPECT_LT(total("planned"), total("none"));
}

// Times of the device that is named decide what a manager lets go, and so what fits: in some of
// these budgets, whatever scratch memory this processor's kernels want.
TEST_F(RunTest, TheLargestBatchIsOfTheDeviceThatIsNamed) {
  const auto largest = [&](const std::string& profile, const std::string& budget) {
    const RunResult r = pal({"plan", "--config", "resnet_small", "--profile", profile, "--set",
                             "memory.manager=dtr", "--budget", budget, "--max-batch", "--json"});
    EXPECT_EQ(r.status, 0) << r.err;
    return nlohmann::json::parse(r.out)["max_batch"].get<int64_t>();
  };
  int differ = 0;
  for (const char* budget : {"7MB", "7.4MB", "8MB", "9MB"}) {
    differ += largest("titanx", budget) != largest("rtx2080ti", budget);
    if (differ > 0) break;
  }
  EXPECT_GT(differ, 0);
}

TEST_F(RunTest, ANaNStopsTheRunAndNamesTheNode) {
  const RunResult r =
      pal({"train", "--config", "tiny.yaml", "--out", "run", "--set", "train.lr=1000", "--set",
           "train.optimizer=sgd", "--set", "train.weight_decay=1000", "--steps", "400"});
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("at node"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace pal
