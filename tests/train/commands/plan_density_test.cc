// pal plan --density: a number, a run's folder, and what is neither.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/support/files.h"
#include "tests/train/commands/plan_command.h"
#include "train/run_files/metrics.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

class PlanDensity : public test::PlanRun {
 protected:
  PlanDensity() {
    std::ofstream(folder_.path() / "net.yaml")
        << "model: {type: resnet, family: cifar, depth: 8, version: v1.5}\n"
           "data: {root: nowhere, format: cifar10, train: [a], classes: 10, image_size: 32}\n"
           "train: {batch_size: 16, steps: 40, accumulate: 2}\n"
           "device: {threads: 1}\n";
    fs::create_directory(run_);
  }

  std::vector<std::string> words(const std::vector<std::string>& more, bool ssdc) const {
    std::vector<std::string> all{"--config", (folder_.path() / "net.yaml").string()};
    if (ssdc) all.insert(all.end(), {"--set", "memory.encode=[ssdc]"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string plan(const std::vector<std::string>& more, bool ssdc = true) {
    return run(words(more, ssdc));
  }
  nlohmann::json plan_json(const std::vector<std::string>& more) {
    return run_json(words(more, true));
  }
  // Rows like a run's: the sparse maps of a plan, of these densities one row after the other. All
  // but the first `left_out`.
  void log(const nlohmann::json& plan, const std::vector<double>& densities,
           const std::string& program = "train/32x32/last", int left_out = 0) {
    MetricsWriter metrics = MetricsWriter::create(run_ / "metrics.jsonl");
    for (const double density : densities) {
      DensityRow row{.step = 1, .program = program, .maps = {}};
      int seen = 0;
      for (const auto& map : plan["encodings"]["maps"]) {
        if (map["form"] == "dense" || ++seen <= left_out) continue;
        row.maps.push_back(
            {.value = map["value"], .layer = map["layer"], .elements = 9, .density = density});
      }
      metrics.write(row);
    }
  }

  const TemporaryFolder folder_;
  const fs::path run_ = folder_.path() / "run";
};

TEST_F(PlanDensity, ANumberIsAssumedOfEveryMap) {
  const auto half = plan_json({}), tenth = plan_json({"--density", "0.1"});
  EXPECT_EQ(half["encodings"]["densities"]["assumed"], 0.5);
  EXPECT_EQ(tenth["encodings"]["densities"]["assumed"], 0.1);
  EXPECT_LT(tenth["bytes"]["total"], half["bytes"]["total"]);
  EXPECT_LT(half["bytes"]["total"], half["encodings"]["without_sparse_bytes"]);
  EXPECT_EQ(half["encodings"]["without_sparse_bytes"], tenth["encodings"]["without_sparse_bytes"]);
  EXPECT_NE(plan({"--density", "0"}).find("a density of 0 is assumed"), std::string::npos);
}

TEST_F(PlanDensity, OfARunTheLargestOfEachMap) {
  const auto half = plan_json({});
  log(half, {0.2, 0.3, 0.1}, "train/32x32/last", 1);
  const auto measured = plan_json({"--density", run_.string()});
  const auto& said = measured["encodings"]["densities"];
  EXPECT_EQ(said["measured"], run_.string());
  const auto& maps = half["encodings"]["maps"];
  EXPECT_EQ(said["maps"], std::count_if(maps.begin(), maps.end(), [](const auto& map) {
                            return map["form"] != "dense";
                          }) - 1);
  int sparse = 0, unknown = 0;
  for (const auto& map : measured["encodings"]["maps"]) {
    const std::string form = map["form"];
    sparse += form == "mask 0.38" || form == "csr 0.38";  // 1.25 times 0.3
    EXPECT_TRUE(form == "dense" || form.find("0.38") != std::string::npos) << map;
    unknown += map.value("reason", "").find("density not known") != std::string::npos;
  }
  EXPECT_GT(sparse, 0);
  EXPECT_GE(unknown, 1) << "what the run did not count";
  EXPECT_NE(plan({"--density", run_.string()}).find("that " + run_.string() + " measured"),
            std::string::npos);
}

TEST_F(PlanDensity, WhatIsNeitherIsSaidWithWhatToDo) {
  auto says = [&](const std::string& density, const std::string& text) {
    EXPECT_EQ(plan({"--density", density}), "");
    EXPECT_EQ(code_, kExitUsage) << density;
    EXPECT_NE(error_.find("--density: "), std::string::npos) << error_;
    EXPECT_NE(error_.find(text), std::string::npos) << error_;
  };
  for (const char* bad : {"1.5", "-0.1", "nan", "much", "0.5x", "nowhere/run"}) {
    says(bad, std::string("'") + bad + "' is neither a number from 0 to 1 nor a run's folder");
  }
  says(run_.string(), "metrics.jsonl has no densities; give a number");
  const auto half = plan_json({});
  log(half, {0.2}, "train/30x40/only");
  says(run_.string(),
       "has densities of train/30x40/only, and not of train/32x32/last; plan that step (--bucket "
       "30,40");
  auto other = half;
  for (auto& map : other["encodings"]["maps"]) map["value"] = 100'000;
  log(other, {0.2});
  says(run_.string(), "is of another model: its value 100000");
  other = half;
  for (auto& map : other["encodings"]["maps"]) map["layer"] = "encoder/rnn0 tanh";
  log(other, {0.2});
  says(run_.string(), "(encoder/rnn0 tanh) is no feature map");

  plan({"--density", "0.5"}, false);
  EXPECT_EQ(code_, kExitUsage);
  EXPECT_NE(error_.find("memory.encode does not have ssdc"), std::string::npos) << error_;
}

// What a run needs is the plan without sparse maps, too: within a budget, and for the largest
// batch.
TEST_F(PlanDensity, TheDensePlanHasToFit) {
  const auto plain = plan_json({"--density", "0.05"});
  const int64_t sparse = plain["bytes"]["total"],
                dense = plain["encodings"]["without_sparse_bytes"];
  const std::string between = std::to_string(sparse + (dense - sparse) / 2);
  // Without recomputation there is nothing to fall back on: rounded maps forbid it.
  const std::string out = plan({"--density", "0.05", "--budget", "400000", "--json"});
  EXPECT_EQ(code_, kExitBudget);
  EXPECT_NE(error_.find("over the budget"), std::string::npos) << error_;
  const auto fitted = plan_json({"--density", "0.05", "--budget", between});
  EXPECT_EQ(fitted["encodings"]["without_sparse_recomputes"], true);
  EXPECT_EQ(fitted["fits"], code_ == kExitDone);

  // The largest batch is the one up to which a plan is not refused: its fallback recomputes.
  const std::string budget = std::to_string(dense);
  const int64_t largest = plan_json({"--max-batch", "--budget", budget})["max_batch"];
  EXPECT_GT(largest, 16);
  for (const int64_t more : {0, 1}) {
    plan({"--set", "train.batch_size=" + std::to_string(largest + more), "--budget", budget});
    EXPECT_EQ(code_, more ? kExitBudget : kExitDone) << largest + more << error_;
  }
}

// As a run does: where the plan with sparse maps is over the budget, or hardly smaller, the step is
// the one without them, and that is said.
TEST_F(PlanDensity, WhereNoMapIsKeptSparseThePlanIsTheDenseOne) {
  const auto useless = plan_json({"--density", "1"});
  EXPECT_EQ(useless["encodings"]["kept_sparse"], false);
  EXPECT_EQ(useless["bytes"]["total"], useless["encodings"]["without_sparse_bytes"]);
  EXPECT_NE(plan({"--density", "1"}).find("which is not a per cent less"), std::string::npos);

  const auto most = plan_json({"--density", "0.5"}), least = plan_json({"--density", "0.05"});
  EXPECT_EQ(most["encodings"]["kept_sparse"], true);
  const int64_t sparse = most["bytes"]["total"], budget = sparse - 1;
  ASSERT_LT(least["bytes"]["total"], budget);
  const auto over = plan_json({"--density", "0.5", "--budget", std::to_string(budget)});
  EXPECT_EQ(code_, kExitDone) << error_;
  EXPECT_EQ(over["fits"], true);
  EXPECT_EQ(over["encodings"]["kept_sparse"], false);
  EXPECT_EQ(over["encodings"]["without_sparse_recomputes"], true);
  EXPECT_EQ(over["bytes"]["total"], over["encodings"]["without_sparse_bytes"]);
  const std::string said = plan({"--density", "0.5", "--budget", std::to_string(budget)});
  EXPECT_NE(said.find("which is over the budget"), std::string::npos) << said;
}

// The page says what the lines say.
TEST_F(PlanDensity, ThePageHasWhatARunNeeds) {
  const std::string page = (folder_.path() / "plan.html").string();
  plan({"--html", page});
  EXPECT_EQ(code_, kExitDone) << error_;
  const std::string html = read_file(page);
  EXPECT_NE(html.find("a density of 0.5 is assumed"), std::string::npos);
  EXPECT_NE(html.find("a run needs the larger of both"), std::string::npos);
}

}  // namespace
}  // namespace pal
