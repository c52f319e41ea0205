// train.overlap_micro_batches: whole runs of the program, side by side and one behind the other.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "tests/train/loop/whole_runs.h"

namespace pal {
namespace {

class OverlapTest : public RunTest {
 protected:
  // The folder's name is the run's.
  RunResult train(const std::string& name, const std::string& config, std::vector<std::string> sets,
                  const std::string& steps = "6") {
    std::vector<std::string> args{"train",   "--config", config,     "--out", name,
                                  "--steps", steps,      "--device", "cpu"};
    for (const std::string& set : sets) args.insert(args.end(), {"--set", set});
    return pal(args);
  }
  std::string checkpoint(const std::string& name) {
    return read_file(dir_ / name / "last.safetensors");
  }
  // Losses and norms by update.
  std::vector<std::string> losses(const std::string& name) {
    std::vector<std::string> out;
    for (const std::string& row : steps(dir_ / name)) {
      const auto json = nlohmann::json::parse(row);
      out.push_back(json["loss"].dump() + " " + json["grad_norm"].dump());
    }
    return out;
  }
  static int count(const std::string& text, const std::string& what) {
    int n = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
    return n;
  }
};

const std::string kOn = "train.overlap_micro_batches=true";

// Several buckets: micro-batches of one bucket go side by side, others one behind the other.
TEST_F(OverlapTest, TranslationHasTheSameBitsForEvenAndOddCounts) {
  for (const char* number : {"2", "3", "4", "7"}) {
    const std::string n = number;
    const std::vector<std::string> sets{"train.accumulate=" + n};
    ASSERT_EQ(train("apart" + n, "tiny.yaml", sets).status, 0);
    const RunResult beside = train("beside" + n, "tiny.yaml", {sets[0], kOn});
    ASSERT_EQ(beside.status, 0) << beside.err;
    EXPECT_GT(count(beside.out + beside.err, "micro-batches overlapped, train/"), 0);
    EXPECT_EQ(losses("apart" + n), losses("beside" + n)) << n;
    EXPECT_TRUE(checkpoint("apart" + n) == checkpoint("beside" + n)) << n;
    // What the option may not change: a run goes on either way.
    ASSERT_EQ(pal({"train", "--resume", "--out", "beside" + n, "--steps", "9", "--set",
                   "train.overlap_micro_batches=false"})
                  .status,
              0);
    ASSERT_EQ(pal({"train", "--resume", "--out", "apart" + n, "--steps", "9", "--set", kOn}).status,
              0);
    EXPECT_EQ(losses("apart" + n), losses("beside" + n)) << n;
  }
}

// Batch norm's running statistics, in the order of the micro-batches; with every exact pass.
TEST_F(OverlapTest, ImagesHaveTheSameBits) {
  const std::vector<std::string> base{"train.accumulate=4", "train.batch_size=8",
                                      "train.valid_every=1000000", "train.log_every=1"};
  const std::vector<std::vector<std::string>> ways = {
      {},
      {"memory.recompute=echo", "memory.encode=[binarize]"},
      {"train.ema=0.9", "train.clip_norm=null"}};
  int i = 0;
  for (const auto& way : ways) {
    std::vector<std::string> sets = base;
    sets.insert(sets.end(), way.begin(), way.end());
    const std::string n = std::to_string(i++);
    const RunResult apart = train("apart" + n, "resnet_small", sets, "3");
    ASSERT_EQ(apart.status, 0) << apart.err;
    sets.push_back(kOn);
    const RunResult beside = train("beside" + n, "resnet_small", sets, "3");
    ASSERT_EQ(beside.status, 0) << beside.err;
    EXPECT_EQ(losses("apart" + n), losses("beside" + n)) << n;
    EXPECT_TRUE(checkpoint("apart" + n) == checkpoint("beside" + n)) << n;
  }
}

TEST_F(OverlapTest, WhatDoesNotFitTheBudgetRunsOneBehindTheOtherAndSaysSo) {
  const std::vector<std::string> sets{"train.accumulate=3", "train.batch_size=64",
                                      "train.log_every=1"};
  ASSERT_EQ(train("free", "resnet_small", sets, "2").status, 0);
  int64_t peak = 0;  // of a step one behind the other
  for (const std::string& row : steps(dir_ / "free")) {
    peak = std::max(peak, nlohmann::json::parse(row)["peak_bytes"].get<int64_t>());
  }
  const auto beside = [&](const std::string& name, int64_t budget) {
    const RunResult r =
        train(name, "resnet_small",
              {sets[0], sets[1], sets[2], kOn, "memory.budget=" + std::to_string(budget)}, "2");
    EXPECT_EQ(r.status, 0) << r.err;
    for (const std::string& row : steps(dir_ / name)) {
      EXPECT_LE(nlohmann::json::parse(row)["peak_bytes"].get<int64_t>(), budget);
    }
    EXPECT_TRUE(checkpoint("free") == checkpoint(name));
    return r.out + r.err;
  };
  const std::string tight = beside("tight", peak);
  EXPECT_EQ(count(tight, "train/28x28/first+middle runs one micro-batch behind the other"), 1)
      << tight;
  EXPECT_EQ(count(tight, "micro-batches overlapped"), 0) << tight;
  const std::string wider = beside("wider", peak * 3 / 2);
  EXPECT_EQ(count(wider, "behind the other: "), 0) << wider;
  EXPECT_EQ(count(wider, "micro-batches overlapped"), 1) << wider;
}

TEST_F(OverlapTest, WhatDoesNotCombineIsRefused) {
  const std::vector<std::pair<std::string, std::string>> others = {
      {"train.accumulate=1", "there is one micro-batch in an update; raise train.accumulate"},
      {"memory.swap=vdnn", "does not combine with memory.swap: vdnn"},
      {"memory.manager=dtr", "does not combine with memory.manager: dtr"},
      {"memory.encode=[ssdc]", "does not combine with memory.encode: ssdc"}};
  for (const auto& [set, why] : others) {
    const RunResult r =
        train("refused", "tiny.yaml", {"train.accumulate=2", kOn, "memory.budget=1GB", set});
    EXPECT_EQ(r.status, 2) << set;
    EXPECT_NE(r.err.find(why), std::string::npos) << r.err;
    EXPECT_FALSE(fs::exists(dir_ / "refused"));
  }
}

TEST_F(OverlapTest, ThePlanSaysWhatBothNeed) {
  const auto plan = [&](std::vector<std::string> more) {
    std::vector<std::string> args{"plan",
                                  "--config",
                                  "tiny.yaml",
                                  "--set",
                                  "train.accumulate=2",
                                  "--profile",
                                  "rtx2080ti",
                                  "--set",
                                  "device.branches=false"};
    args.insert(args.end(), more.begin(), more.end());
    const RunResult r = pal(args);
    EXPECT_EQ(r.status, 0) << r.err;
    return r.out;
  };
  const std::string text = plan({"--set", kOn, "--html", "page.html"});
  const size_t at = text.find("micro-batches overlap: ");
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_NE(text.find("the second begins after", at), std::string::npos) << text;
  const std::string page = read_file(dir_ / "page.html");
  EXPECT_EQ(count(page, "micro-batches overlap: "), 1);

  // The figures of the line, each under its name.
  const auto json = nlohmann::json::parse(plan({"--set", kOn, "--json"}));
  ASSERT_TRUE(json.contains("pair"));
  const nlohmann::json& pair = json["pair"];
  EXPECT_EQ(pair["micro_batches"], "first+last");
  EXPECT_EQ(pair["fits"], true);
  const auto in_text = [&](const std::string& words) {
    EXPECT_NE(text.find(words, at), std::string::npos) << words << " in " << text;
  };
  in_text(format_bytes(pair["larger_bytes"]) + " -> " + format_bytes(pair["bytes"]));
  char words[120];
  std::snprintf(words, sizeof words,
                "begins after %.0f %% of the first; predicted %.2f ms, one behind the other %.2f, "
                "no way below %.2f",
                100 * pair["begins_after"].get<double>(), pair["time"]["pair_ms"].get<double>(),
                pair["time"]["one_by_one_ms"].get<double>(),
                pair["time"]["least_ms"].get<double>());
  in_text(words);
  EXPECT_EQ(pair["time"]["predicted"], true);
  EXPECT_EQ(pair["time"]["profile"], json["time"]["profile"]);

  // The step's own figures are those without; nothing is added where nothing overlaps.
  const auto apart = nlohmann::json::parse(plan({"--json"}));
  EXPECT_FALSE(apart.contains("pair"));
  EXPECT_EQ(apart["bytes"], json["bytes"]);
  const std::string budget = std::to_string(json["bytes"]["total"].get<int64_t>());
  const auto tight = nlohmann::json::parse(plan({"--set", kOn, "--json", "--budget", budget}));
  EXPECT_EQ(tight["fits"], true);
  EXPECT_EQ(tight["pair"]["fits"], false);
  EXPECT_NE(tight["pair"]["why"].get<std::string>().find("side by side need at least"),
            std::string::npos);
  EXPECT_FALSE(tight["pair"].contains("bytes"));
}

}  // namespace
}  // namespace pal
