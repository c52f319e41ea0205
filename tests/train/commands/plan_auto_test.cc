// pal plan where plans are chosen from a budget: the plan, the front, searches, what is refused.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/support/files.h"
#include "tests/train/commands/plan_command.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

class PlanAuto : public test::PlanRun {
 protected:
  PlanAuto() {
    setenv("XDG_CACHE_HOME", (dir_ / "cache").c_str(), 1);  // each front once in a test
    std::ofstream(dir_ / "tiny.yaml")
        << "model: {type: nmt, hidden: 16, embedding: 12, attention_size: 8, encoder_layers: 1,\n"
           "  decoder_layers: 1, fused: false}\n"
           "data: {synthetic: true, source_vocab_size: 60, target_vocab_size: 400, max_length: "
           "20}\n"
           "train: {batch_size: 16, steps: 40}\n"
           "device: {threads: 1}\n";
  }
  std::vector<std::string> on_tiny(std::vector<std::string> args) const {
    args.insert(args.begin(), {"--config", (dir_ / "tiny.yaml").string()});
    return args;
  }
  std::string plan(std::vector<std::string> args) { return run(on_tiny(std::move(args))); }
  nlohmann::json json(std::vector<std::string> args) { return run_json(on_tiny(std::move(args))); }
  nlohmann::json within(int64_t budget, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"--bucket", "10,12", "--budget", std::to_string(budget)});
    return json(more);
  }
  void expect_refused(std::vector<std::string> args, const std::string& words) {
    plan(args);
    EXPECT_EQ(code_, kExitUsage) << words;
    EXPECT_NE(error_.find(words), std::string::npos) << error_;
  }

  const TemporaryFolder folder_;
  const fs::path dir_ = folder_.path();
};

TEST_F(PlanAuto, ThePlanIsTheFrontsPick) {
  const auto front = json({"--front", "--bucket", "10,12"});
  ASSERT_EQ(code_, kExitDone) << error_;
  const auto& points = front["points"];
  ASSERT_GT(points.size(), 2u);
  for (const auto& point : points) {
    for (const char* key : {"bytes", "step_ms", "overhead", "bound_ms", "gap", "kept", "recomputed",
                            "encoded", "offloaded", "host", "recording", "from"}) {
      EXPECT_TRUE(point.contains(key)) << key;
    }
  }
  EXPECT_GT(front["floor"]["bytes"], 0);
  EXPECT_FALSE(front["floor"]["node"].get<std::string>().empty());
  const int64_t least = points.front()["bytes"], most = points.back()["bytes"];
  double last = 1e9;
  for (int k = 0; k <= 6; ++k) {
    const int64_t budget = least + (most - least) * k / 6;
    const auto chosen = within(budget);
    ASSERT_EQ(code_, kExitDone) << error_;
    EXPECT_LE(chosen["bytes"]["total"].get<int64_t>(), budget);
    EXPECT_EQ(chosen["fits"], true);
    const double ms = chosen["time"]["step_ms"];
    EXPECT_LE(ms, last) << "more bytes never cost time";
    last = ms;
    const auto picked = json({"--front", "--bucket", "10,12", "--budget", std::to_string(budget)});
    EXPECT_EQ(picked["bytes"]["total"], chosen["bytes"]["total"]);
    EXPECT_EQ(points[picked["chosen"].get<size_t>()]["bytes"], chosen["bytes"]["total"]);
  }
  EXPECT_NE(plan({"--bucket", "10,12", "--budget", std::to_string(least)}).find("  auto   "),
            std::string::npos);
}

TEST_F(PlanAuto, BelowTheLeastItSaysSoBesideThatPlan) {
  const auto front = json({"--front", "--bucket", "10,12"});
  const int64_t least = front["points"][0]["bytes"];
  const auto plan = within(least - 1);
  EXPECT_EQ(code_, kExitBudget);
  EXPECT_EQ(plan["fits"], false);
  EXPECT_EQ(plan["bytes"]["total"], least);
  for (const std::string& part :
       {std::string("the least found is "), std::string(" touches are "),
        std::string("train.batch_size: "), std::string("memory.allow: [")}) {
    EXPECT_NE(error_.find(part), std::string::npos) << part << " in " << error_;
  }
  EXPECT_NE(error_.find("[reordered] would fit"), std::string::npos) << error_;
  within(least - 1, {"--set", "memory.allow=[reordered]"});
  EXPECT_EQ(code_, kExitDone) << error_;
}

// Where rounded maps would do, they do.
TEST_F(PlanAuto, BelowTheLeastOfImagesRoundedMapsFit) {
  std::ofstream(dir_ / "images.yaml")
      << "model: {type: resnet, family: cifar, depth: 14, width: 8}\n"
         "data: {synthetic: true, classes: 4, image_size: 16, crop: random_resized}\n"
         "train: {batch_size: 32, steps: 4}\n"
         "device: {threads: 1}\n";
  // With copies as few bytes do without rounding.
  const std::vector<std::string> images{"--config", (dir_ / "images.yaml").string(),
                                        "--host-budget", "1"};
  auto words = images;
  words.emplace_back("--front");
  const int64_t least = run_json(words)["points"][0]["bytes"];
  words = images;
  words.insert(words.end(), {"--budget", std::to_string(least - 1)});
  run_json(words);
  EXPECT_EQ(code_, kExitBudget);
  EXPECT_NE(error_.find("[lossy] would fit"), std::string::npos) << error_;
  words.insert(words.end(), {"--set", "memory.allow=[lossy]"});
  EXPECT_LT(run_json(words)["bytes"]["total"].get<int64_t>(), least);
  EXPECT_EQ(code_, kExitDone) << error_;
}

// A queue for the exchanges of several devices takes no more than the budget leaves.
TEST_F(PlanAuto, TheExchangesQueueKeepsToTheBudget) {
  const std::vector<std::string> devices{
      "--front", "--bucket", "10,12", "--profile", "v100_16",          "--devices",
      "4",       "--link",   "1gbe",  "--set",     "train.bucket=4KiB"};
  const auto front = json(devices);
  ASSERT_EQ(code_, kExitDone) << error_;
  const size_t points = front["points"].size();
  int larger = 0;
  for (const auto& [i, part] : {std::pair(size_t(0), 50), {points / 2, 50}, {points - 1, 10}}) {
    const int64_t bytes = front["points"][i]["bytes"], budget = bytes + bytes / part;
    std::vector<std::string> words = devices;
    words.insert(words.end(), {"--budget", std::to_string(budget)});
    const auto picked = json(words);
    EXPECT_LE(picked["bytes"]["total"].get<int64_t>(), budget);
    EXPECT_EQ(picked["fits"], true);
    larger += picked["bytes"]["total"] > picked["points"][picked["chosen"].get<size_t>()]["bytes"];
  }
  EXPECT_GT(larger, 0) << "a queue that takes some of it";
}

// Beyond the least no queue makes another plan of it, and what is offloaded nowhere needs no limit.
TEST_F(PlanAuto, LimitsOfSeveralDevicesAreThoseOfOne) {
  const std::vector<std::string> devices{
      "--bucket", "10,12",  "--profile", "v100_16", "--devices",
      "4",        "--link", "1gbe",      "--set",   "train.bucket=4KiB"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), devices.begin(), devices.end());
    return on_tiny(more);
  };
  const auto front = run_json(with({"--front"}));
  const int64_t least = front["points"][0]["bytes"];
  run(with({"--budget", std::to_string(least - 1)}));
  EXPECT_EQ(code_, kExitBudget) << error_;
  EXPECT_NE(error_.find("no plan keeps to the budget"), std::string::npos) << error_;
  const auto alone = run_json(with({"--front", "--host-budget", "1"}));
  const int64_t apart = alone["points"][0]["bytes"];
  run(with({"--budget", std::to_string(apart + apart / 20), "--host-budget", "1"}));
  EXPECT_EQ(code_, kExitDone) << error_;
}

// Clones that run inside of gradients are faster than reading what was kept: a plan of the front is
// the fastest, however many bytes there are.
TEST_F(PlanAuto, AllTheMemoryThereIsIsNeverSlowerThanLess) {
  const auto front = json({"--front", "--bucket", "10,12"});
  ASSERT_EQ(code_, kExitDone) << error_;
  EXPECT_NE(front["points"].back()["from"], "none");
  const auto any = within(int64_t(1) << 50);
  ASSERT_EQ(code_, kExitDone) << error_;
  for (const auto& point : front["points"]) EXPECT_LE(any["time"]["step_ms"], point["step_ms"]);
}

// And where nothing is to be gained so, the recorded step is the fastest of all.
TEST_F(PlanAuto, AllTheMemoryThereIsIsNeverSlowerThanLessForImages) {
  for (const char* config : {"zoo_cifar10", "nin_imagenet"}) {
    const std::vector<std::string> words{"--config", config, "--profile", "v100_16"};
    auto less = words, more = words;
    less.emplace_back("--front");
    more.insert(more.end(), {"--budget", "1000GiB"});
    const auto front = run_json(less);
    ASSERT_EQ(code_, kExitDone) << error_;
    const auto any = run_json(more);
    ASSERT_EQ(code_, kExitDone) << error_;
    EXPECT_GE(front["points"].size(), 1u);
    for (const auto& point : front["points"]) {
      EXPECT_LE(any["time"]["step_ms"], point["step_ms"]) << config;
    }
  }
}

TEST_F(PlanAuto, BelowTheLeastOfAllRecordingsItSaysSo) {
  const std::vector<std::string> allowed{"--set", "memory.allow=[reordered]"};
  auto words = allowed;
  words.insert(words.end(), {"--front", "--bucket", "10,12"});
  const int64_t least = json(words)["points"][0]["bytes"];
  const auto plan = within(least - 1, allowed);
  EXPECT_EQ(code_, kExitBudget);
  EXPECT_EQ(plan["bytes"]["total"], least);
  EXPECT_NE(error_.find("the least found is "), std::string::npos) << error_;
  EXPECT_EQ(error_.find("[reordered]"), std::string::npos) << error_;
  within(least, allowed);
  EXPECT_EQ(code_, kExitDone) << error_;
}

TEST_F(PlanAuto, SearchesSayWhatTheAnswerCosts) {
  const int64_t budget = 600'000;
  const std::string size = std::to_string(budget);
  const auto search = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--bucket", "5,6", "--budget", size});
    const auto found = json(more);
    EXPECT_EQ(code_, kExitDone) << error_;
    return found;
  };
  const auto plain = search({"--max-batch", "--set", "memory.auto=false"});
  const auto any = search({"--max-batch"});
  const auto cheap = search({"--max-batch", "--max-overhead", "5%"});
  EXPECT_GT(any["max_batch"], plain["max_batch"]);
  EXPECT_GE(any["max_batch"], cheap["max_batch"]);
  EXPECT_GE(cheap["max_batch"], plain["max_batch"]);
  EXPECT_LE(cheap["answer"]["overhead"].get<double>(), 0.05);
  EXPECT_FALSE(plain.contains("answer"));
  const int64_t found = any["max_batch"];
  const auto with = [&](int64_t batch) {
    plan({"--bucket", "5,6", "--budget", size, "--set",
          "train.batch_size=" + std::to_string(batch)});
    return code_;
  };
  EXPECT_EQ(with(found), kExitDone) << error_;
  EXPECT_EQ(with(found + 1), kExitBudget);
  const std::string text = plan({"--bucket", "5,6", "--budget", size, "--max-batch"});
  EXPECT_NE(text.find("; it costs "), std::string::npos) << text;

  const int64_t length = search({"--max-length"})["max_length"];
  EXPECT_GE(length, 5);
  const auto at = [&](int64_t l) {
    plan({"--bucket", std::to_string(l) + "," + std::to_string(l * 12 / 10), "--budget", size});
    return code_;
  };
  EXPECT_EQ(at(length), kExitDone) << error_;
  EXPECT_EQ(at(length + 1), kExitBudget);
}

// The part is of the step as it is configured, also where it may be recorded otherwise.
TEST_F(PlanAuto, AnOverheadIsOfTheStepAsConfigured) {
  const std::vector<std::string> fused{"--bucket", "3,3", "--set", "model.fused=true"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), fused.begin(), fused.end());
    const auto found = json(more);
    EXPECT_EQ(code_, kExitDone) << error_;
    return found;
  };
  const auto front = with({"--front", "--set", "memory.allow=[reordered]"});
  const auto budget = int64_t(2.0 * front["points"][0]["bytes"].get<double>());
  const auto found = with({"--budget", std::to_string(budget), "--max-batch", "--max-overhead",
                           "5%", "--set", "memory.allow=[reordered]"});
  const int64_t batch = found["max_batch"];
  const auto plain = with({"--set", "train.batch_size=" + std::to_string(batch)});
  EXPECT_LE(found["answer"]["step_ms"].get<double>(),
            1.05 * plain["time"]["step_ms"].get<double>());
}

TEST_F(PlanAuto, RecordingsEnterTheFrontWhereTheyAreAllowed) {
  const auto one = json({"--front", "--bucket", "10,12"});
  const auto all = json({"--front", "--bucket", "10,12", "--set", "memory.allow=[reordered]"});
  ASSERT_EQ(code_, kExitDone) << error_;
  int others = 0;
  for (const auto& point : all["points"]) {
    EXPECT_NE(point["recording"], "");
    others += point["recording"].get<std::string>().find("model.fused: true") == 0;
  }
  EXPECT_GT(others, 0);
  EXPECT_LT(all["points"][0]["bytes"], one["points"][0]["bytes"]);
  for (const auto& point : one["points"]) {
    EXPECT_EQ(point["recording"], "");
    bool met = false;  // by some plan of all recordings
    for (const auto& other : all["points"]) {
      met |= other["bytes"] <= point["bytes"] && other["step_ms"] <= point["step_ms"];
    }
    EXPECT_TRUE(met) << point.dump();
  }
}

TEST_F(PlanAuto, ThePageHasThePicture) {
  const std::string page = (dir_ / "page.html").string();
  const int64_t least = json({"--front", "--bucket", "10,12"})["points"][0]["bytes"];
  plan({"--bucket", "10,12", "--budget", std::to_string(least + 20'000), "--html", page});
  ASSERT_EQ(code_, kExitDone) << error_;
  const std::string text = read_file(page);
  for (const char* part : {"The fastest plans by bytes", "aria-label=\"fastest plans by bytes\"",
                           "this step's plan", ">made again<", "budget ", "floor "}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
  plan({"--bucket", "10,12", "--html", page});
  EXPECT_EQ(read_file(page).find("The fastest plans by bytes"), std::string::npos);
  plan({"--bucket", "10,12", "--front", "--html", page});
  EXPECT_NE(read_file(page).find("The fastest plans by bytes"), std::string::npos) << error_;
}

TEST_F(PlanAuto, WhatMakesNoSenseIsRefused) {
  expect_refused({"--max-overhead", "5%"}, "--max-overhead: is of --max-batch");
  expect_refused({"--max-overhead", "5%", "--budget", "1MB"}, "--max-overhead: is of --max-batch");
  expect_refused(
      {"--max-batch", "--max-overhead", "5%", "--budget", "1MB", "--set", "memory.recompute=echo"},
      "--max-overhead: is of --max-batch");
  expect_refused({"--max-length"}, "--max-length: how much memory there is, is not known");
  expect_refused({"--front", "--max-length"}, "--front: does not combine with --max-length");
  expect_refused({"--budget", "1MB", "--set", "memory.auto=true", "--set", "memory.swap=vdnn"},
                 "memory.auto: true does not combine with memory.swap: vdnn");
  for (const char* bad : {"5", "-1%", "much", "%", "5%%", "nan%", "1e9%"}) {
    expect_refused({"--max-batch", "--budget", "1MB", "--max-overhead", bad}, "write it as 5%");
  }
}

// Where a batch runs in parts, the plan says which nodes do; where it is to stay whole, nothing.
TEST_F(PlanAuto, PartsOfTheBatchAreTold) {
  std::ofstream(dir_ / "nin.yaml") << "model: {type: zoo, network: nin, width: 0.125}\n"
                                      "data: {synthetic: true, classes: 4, image_size: 64}\n"
                                      "train: {batch_size: 4, steps: 2}\n"
                                      "device: {threads: 1}\n";
  const std::vector<std::string> whole{"--config", (dir_ / "nin.yaml").string()};
  std::vector<std::string> parts = whole;
  parts.insert(parts.end(), {"--set", "train.batch_parts=2"});
  EXPECT_EQ(run(whole).find("parts of the batch"), std::string::npos);
  EXPECT_FALSE(run_json(whole).contains("batch_parts"));
  EXPECT_NE(run(parts).find("  parts of the batch: 2 parts of 2 rows: "), std::string::npos);
  const auto told = run_json(parts);
  EXPECT_EQ(told["batch_parts"]["parts"], 2);
  EXPECT_EQ(told["batch_parts"]["examples"], 4);
  EXPECT_GT(told["batch_parts"]["nodes"], 4);
}

}  // namespace
}  // namespace pal
