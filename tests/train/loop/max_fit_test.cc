// Searches for the largest batch and depth, and pal plan's flags that ask for them.
#include "train/loop/max_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "memory/compile.h"
#include "tests/support/files.h"
#include "tests/train/commands/plan_command.h"
#include "train/loop/trainer.h"
#include "train/tasks/make_task.h"

namespace pal {
namespace {
namespace fs = std::filesystem;

Fitting search(const FitRange& range, int64_t capacity,
               const std::function<int64_t(int64_t)>& bytes_of) {
  return search_fitting(range, capacity, bytes_of);
}

TEST(SearchFitting, ALineTakesFewProbes) {
  auto line = [](int64_t v) { return 1'000'000 + 777 * v; };
  for (int64_t start : {1, 7, 128, 5000, 900'000}) {
    const Fitting f = search({.start = start, .least = 1, .most = 1'000'000}, 10'000'000, line);
    EXPECT_EQ(f.value, 9'000'000 / 777) << start;
    EXPECT_EQ(f.bytes, line(f.value));
    EXPECT_EQ(f.next_bytes, line(f.value + 1));
    EXPECT_GT(f.next_bytes, 10'000'000);
    EXPECT_TRUE(f.sure);
    EXPECT_NEAR(f.slope, 777, 1);
    EXPECT_LE(f.probes, 9) << start;
  }
}

TEST(SearchFitting, AnyRisingFunctionIsSolvedExactly) {
  const std::vector<std::function<int64_t(int64_t)>> functions = {
      [](int64_t v) { return v * v; },
      [](int64_t v) { return 1000 * int64_t(std::sqrt(double(v))); },
      [](int64_t v) { return v < 300 ? v : v + 50'000; },  // another method from there on
      [](int64_t v) { return 64 * (v / 16); },
      [](int64_t v) { return int64_t(std::exp(double(std::min<int64_t>(v, 30)))); }};
  for (const auto& f : functions) {
    for (int64_t capacity : {0, 1, 63, 64, 1000, 49'999, 200'000, 900'000}) {
      for (int64_t start : {1, 3, 100, 1000}) {
        int64_t right = 0;
        while (right < 1000 && f(right + 1) <= capacity) ++right;
        const Fitting out = search({.start = start, .least = 1, .most = 1000}, capacity, f);
        EXPECT_EQ(out.value, right) << capacity << " from " << start;
        EXPECT_LE(out.probes, 40);
        EXPECT_EQ(out.next_bytes, right == 1000 ? 0 : f(right + 1));
      }
    }
  }
}

TEST(SearchFitting, TriesTheValuesThatThereAre) {
  const std::vector<int64_t> there{18, 34, 50, 101, 152, 200};
  for (int64_t capacity : {17, 18, 49, 50, 151, 199, 200, 500}) {
    for (int64_t start : there) {
      const Fitting f = search_fitting(
          {.start = start, .least = 8, .most = 10'000}, capacity,
          [&](int64_t v) {
            EXPECT_TRUE(std::count(there.begin(), there.end(), v)) << v;
            return v;
          },
          {}, [&](int64_t v) { return std::count(there.begin(), there.end(), v) > 0; });
      const auto next = std::upper_bound(there.begin(), there.end(), capacity);
      EXPECT_EQ(f.value, next == there.begin() ? 7 : *std::prev(next)) << capacity;
      EXPECT_EQ(f.next_bytes, next == there.end() ? 0 : *next) << capacity;
      EXPECT_EQ(f.next, f.next_bytes);
      EXPECT_TRUE(f.sure);
    }
  }
}

TEST(SearchFitting, OneProbeHasNoSlope) {
  for (const int64_t value : {1, 5}) {
    const Fitting f = search({.start = value, .least = value, .most = value}, 1000,
                             [](int64_t v) { return 100 * v; });
    EXPECT_EQ(f.value, value);
    EXPECT_EQ(f.probes, 1);
    EXPECT_EQ(f.slope, 0);
  }
}

TEST(SearchFitting, StopsWhenTold) {
  int calls = 0;
  const Fitting f = search_fitting(
      {.start = 8, .least = 1, .most = 1000}, 500, [&](int64_t v) { return ++calls, v; },
      [&] { return calls >= 2; });
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(f.value, 16);
  EXPECT_FALSE(f.sure);
  EXPECT_EQ(search({.start = 8, .least = 2, .most = 9}, 1, [](int64_t v) { return v; }).value, 1)
      << "nothing fits";
}

constexpr const char* kTiny =
    "model: {type: nmt, hidden: 16, embedding: 12, attention_size: 8, encoder_layers: 1,\n"
    "  decoder_layers: 1}\n"
    "data: {synthetic: true, source_vocab_size: 60, target_vocab_size: 50, max_length: 20}\n"
    "train: {batch_size: 16, steps: 40}\n"
    "memory: {auto: false}\n"
    "device: {threads: 1}\n";

class PlanCommand : public test::PlanRun {
 protected:
  PlanCommand() {
    std::string text = kTiny;
    std::ofstream(dir_ / "tiny.yaml") << text;
    const std::string sentences = "batch_size: 16";
    text.replace(text.find(sentences), sentences.size(), "batch_words: 400");
    std::ofstream(dir_ / "words.yaml") << text;
  }
  ~PlanCommand() override { fs::remove_all(dir_); }

  std::vector<std::string> on_config(std::vector<std::string> args) const {
    args.insert(args.begin(), {"--config", (dir_ / config_).string(), "--bucket", "10,12"});
    return args;
  }
  std::string plan(std::vector<std::string> args) { return run(on_config(std::move(args))); }
  nlohmann::json plan_json(std::vector<std::string> args) {
    return run_json(on_config(std::move(args)));
  }
  // With `budget`, where it may decide how much is recomputed; the plan is printed in any case.
  int64_t bytes_at(const std::string& assignment, const std::string& more = "train.seed=1",
                   const std::string& budget = "1TiB") {
    return plan_json({"--set", assignment, "--set", more, "--budget", budget})["bytes"]["total"]
        .get<int64_t>();
  }

  const TemporaryFolder folder_;
  const fs::path dir_ = folder_.path();
  std::string config_ = "tiny.yaml";
};

TEST_F(PlanCommand, PredictsForANamedDevice) {
  auto json = plan_json({});
  EXPECT_EQ(json["time"]["profile"], "RTX 2080 Ti") << "the default where nothing is measured";
  EXPECT_EQ(json["time"]["predicted"], true);
  EXPECT_EQ(json["time"]["overhead"], 0.0);
  const double slow = json["time"]["step_ms"];
  EXPECT_GT(slow, 0);
  EXPECT_NEAR(json["time"]["samples_per_s"].get<double>(), 16e3 / slow, 1e-6);
  EXPECT_EQ(json["fits"], true);
  EXPECT_TRUE(json["max_batch"].is_null());
  json = plan_json({"--profile", "h200", "--set", "memory.recompute=echo"});
  EXPECT_EQ(json["time"]["profile"], "H200");
  EXPECT_LT(json["time"]["step_ms"].get<double>(), slow);
  EXPECT_EQ(json["passes"][0]["name"], "echo");
  const std::string text = plan({"--profile", "v100_16"});
  EXPECT_NE(text.find("time (predicted, V100 16 GB): "), std::string::npos) << text;
  plan({"--profile", "v100"});
  EXPECT_EQ(code_, kExitUsage);
  EXPECT_NE(error_.find("there is no file 'v100'"), std::string::npos) << error_;
}

TEST_F(PlanCommand, RecomputationHasAPrice) {
  const std::vector<std::string> args{
      "--set", "memory.recompute=echo", "--set",     "memory.fuse_recompute=false",
      "--set", "model.fused=false",     "--set",     "model.attention_size=256",
      "--set", "train.batch_size=128",  "--profile", "rtx2080ti"};
  const auto json = plan_json(args);
  const auto& passes = json["passes"];
  const auto pass =
      std::find_if(passes.begin(), passes.end(), [](const auto& p) { return p["name"] == "echo"; });
  ASSERT_NE(pass, passes.end()) << json.dump();
  const double added = (*pass)["added_ms"], step = json["time"]["step_ms"];
  ASSERT_GT(added, 0) << json.dump();
  EXPECT_NEAR(json["time"]["overhead"].get<double>(), added / (step - added), 1e-9);
  const std::string text = plan(args);
  EXPECT_NE(text.find(" % echo"), std::string::npos) << text;

  std::vector<std::string> less = args;
  less.insert(less.end(), {"--set", "memory.recompute_overhead=0.02"});
  const auto cheaper = plan_json(less);
  EXPECT_LT(cheaper["time"]["overhead"], json["time"]["overhead"]);
  EXPECT_GT(cheaper["bytes"]["total"], json["bytes"]["total"]);
}

TEST_F(PlanCommand, WhatDoesNotFitTheDeviceIsSaidAndOnlyABudgetIsAnError) {
  std::ofstream(dir_ / "toy.yaml")
      << "name: toy\nf32_tflops: 2\nmemory_gb_s: 100\nunits: 4\nlaunch_us: 1.5\n"
         "matmul_efficiency: 0.5\nmemory_efficiency: 1\ncapacity: 64KiB\n";
  const std::string toy = (dir_ / "toy.yaml").string();
  auto json = plan_json({"--profile", toy});
  EXPECT_EQ(code_, kExitDone);
  EXPECT_EQ(json["fits"], false);
  EXPECT_NE(plan({"--profile", toy}).find("does not fit 65.5 kB"), std::string::npos);
  const int64_t there = json["bytes"]["total"];
  json = plan_json({"--profile", toy, "--budget", std::to_string(there)});
  EXPECT_EQ(json["fits"], true) << "the budget counts";
  // Here with what kernels take beside it, and no operand packed; below its bound nothing fits.
  const auto least = plan_json({"--budget", "1"});
  const std::string less = std::to_string(least["bytes"]["lower_bound"].get<int64_t>() - 1);
  json = plan_json({"--budget", less});
  EXPECT_EQ(code_, kExitBudget);
  EXPECT_EQ(json["fits"], false);
  EXPECT_EQ(json["bytes"]["total"], least["bytes"]["total"]);
  EXPECT_NE(error_.find("over the budget of"), std::string::npos) << error_;
  EXPECT_NE(error_.find("what would help: memory.recompute: echo ("), std::string::npos) << error_;
  EXPECT_NE(error_.find("as it is, train.batch_size: 1"), std::string::npos) << error_;
  EXPECT_EQ(plan({"--budget", less}), "");
}

TEST_F(PlanCommand, FindsTheLargestBatch) {
  for (const char* method : {"none", "echo"}) {
    const std::string set = std::string("memory.recompute=") + method;
    for (const char* budget : {"700000", "2000000"}) {
      const auto json = plan_json({"--max-batch", "--budget", budget, "--set", set});
      ASSERT_EQ(code_, kExitDone) << error_;
      const int64_t found = json["max_batch"], capacity = std::atoll(budget);
      ASSERT_GT(found, 1);
      auto needs = [&](int64_t batch) {
        return bytes_at("train.batch_size=" + std::to_string(batch), set, budget);
      };
      EXPECT_LE(needs(found), capacity) << method;
      EXPECT_GT(needs(found + 1), capacity) << method;
      // Words per batch make way for sentences.
      config_ = "words.yaml";
      EXPECT_EQ(plan_json({"--max-batch", "--budget", budget, "--set", set})["max_batch"], found);
      config_ = "tiny.yaml";
    }
  }
  EXPECT_EQ(plan_json({"--max-batch", "--budget", "1000"})["max_batch"], 0);
  const std::string text = plan({"--max-batch", "--budget", "2000000"});
  EXPECT_NE(text.find("is the largest that fits 2.00 MB"), std::string::npos) << text;
  plan({"--max-batch"});
  EXPECT_EQ(code_, kExitUsage);
  EXPECT_NE(error_.find("give --budget or --profile"), std::string::npos) << error_;
}

TEST_F(PlanCommand, FindsTheLargestDepth) {
  const auto json = plan_json({"--max-depth", "model.encoder_layers", "--budget", "1500000"});
  ASSERT_EQ(code_, kExitDone) << error_;
  const int64_t found = json["max_depth"];
  ASSERT_TRUE(found > 1 && found < 64) << found;
  EXPECT_TRUE(json["max_batch"].is_null());
  EXPECT_LE(bytes_at("model.encoder_layers=" + std::to_string(found)), 1'500'000);
  EXPECT_GT(bytes_at("model.encoder_layers=" + std::to_string(found + 1)), 1'500'000);
  EXPECT_EQ(plan_json({"--max-depth", "model.encoder_layers", "--profile", "h200"})["max_depth"],
            64)
      << "the option ends there";
  plan({"--max-depth", "model.encoderlayers", "--budget", "1MB"});
  EXPECT_EQ(code_, kExitUsage);
  EXPECT_NE(error_.find("did you mean model.encoder_layers?"), std::string::npos) << error_;
}

// Residual networks have some depths only.
TEST_F(PlanCommand, FindsTheLargestDepthThatThereIs) {
  std::ofstream(dir_ / "cifar.yaml")
      << "model: {type: resnet, family: cifar, depth: 20, width: 4}\n"
         "data: {format: cifar10, synthetic: true, classes: 10, image_size: 32}\n"
         "train: {batch_size: 2, steps: 1}\nmemory: {auto: false}\n"
         "device: {threads: 1}\n";
  config_ = "cifar.yaml";
  const auto json = plan_json({"--max-depth", "model.depth", "--budget", "3MB"});
  ASSERT_EQ(code_, kExitDone) << error_;
  const int64_t found = json["max_depth"];
  EXPECT_TRUE(found > 20 && found % 6 % 3 == 2) << found;
  auto needs = [&](int64_t depth) {
    return bytes_at("model.depth=" + std::to_string(depth), "train.seed=1", "3MB");
  };
  EXPECT_LE(needs(found), 3'000'000);
  EXPECT_GT(needs(found + 3), 3'000'000);
}

TEST_F(PlanCommand, TrainingSaysWhichBatchWouldFit) {
  const Config config = parse_config(kTiny, "tiny.yaml", {parse_set("memory.budget=400000")});
  try {
    const TrainArgs args{.config = config, .name = "tiny", .out = dir_ / "run"};
    Trainer trainer(args, make_task(args));
    FAIL() << "it fits";
  } catch (const BudgetError& e) {
    EXPECT_NE(std::string(e.what()).find("as it is, train.batch_size: "), std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace pal
