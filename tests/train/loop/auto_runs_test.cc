// memory.auto: whole runs of the program within budgets. The losses and weights of the run without
// one, bit for bit, and never a byte more than the budget.
#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/train/loop/whole_runs.h"

namespace pal {
namespace {

class AutoRuns : public RunTest {
 protected:
  RunResult run(const std::string& words) {
    std::istringstream all(words + " --set device.threads=1");
    return pal({std::istream_iterator<std::string>(all), {}});
  }
  RunResult train(const std::string& out, const std::string& more) {
    return run("train --out " + out + " --set train.log_every=1 " + more);
  }
  // What a step takes as it was recorded, with no operand packed, and the least that a front has,
  // about.
  int64_t most(const std::string& config) {
    const RunResult r =
        run("train --dry-run --out none --set memory.auto=false --set memory.budget=1 " + config);
    EXPECT_EQ(r.status, 3) << r.err;
    return bytes_after("the step needs ", r.err);
  }
  static int64_t bytes_after(const std::string& words, const std::string& text) {
    const size_t at = text.find(words);
    if (at == std::string::npos) return ADD_FAILURE() << text, 0;
    std::istringstream in(text.substr(at + words.size()));
    double number = 0;
    std::string unit;
    in >> number >> unit;
    return int64_t(number * (unit.starts_with("GB") ? 1e9 : unit.starts_with("MB") ? 1e6 : 1e3));
  }
  // Of a budget that is too small the run says what it needs: first for training, then for
  // validation and decoding.
  int64_t least(const std::string& config) {
    int64_t budget = 1;
    for (const std::string words : {"the least found is ", "the step needs "}) {
      const RunResult r =
          run("train --dry-run --out none --set memory.budget=" + std::to_string(budget) + " " +
              config);
      if (r.status == 0) break;
      EXPECT_EQ(r.status, 3) << r.err;
      budget = int64_t(1.01 * double(bytes_after(words, r.err)));
    }
    return budget;
  }
  struct Result {
    std::string bits;  // losses and gradients' norms by step, and the state at the end
    int64_t peak = 0;  // the most that a row says
    int rows = 0;
  };
  Result result(const std::string& out) {
    Result r;
    for (const std::string& row : steps(dir_ / out)) {
      const auto json = nlohmann::json::parse(row);
      r.bits += json["loss"].dump() + " " + json["grad_norm"].dump() + "\n";
      r.peak = std::max(r.peak, json["peak_bytes"].get<int64_t>());
      ++r.rows;
    }
    r.bits += read_file(dir_ / out / "last.safetensors");
    return r;
  }
  bool holds_run() const { return fs::exists(dir_ / "run/config.yaml"); }
  std::string cached_files(const std::function<void(const fs::path&)>& each) {
    std::string names;
    for (const auto& entry : fs::directory_iterator(dir_ / "cache/palimpsest/fronts")) {
      each(entry.path());
      names += entry.path().filename().string() + " ";
    }
    return names;
  }
};

// Of words enough that training takes more than decoding does.
const std::string kWide =
    "--config tiny.yaml --set train.batch_size=32 --set data.target_vocab_size=600";

// Its step runs in every update, so that a few of these time it.
const std::string kOneBucket = " --set data.bucket_width=20 ";

struct Small {
  const char *name, *sets;
};
constexpr Small kSmall[] = {
    {"nmt_small",
     "--set train.batch_size=8 --set data.synthetic=true --set data.source_vocab_size=300 "
     "--set data.target_vocab_size=300 --set model.dropout=0.2"},
    {"transformer_small", "--set train.batch_size=8 --set model.dropout=0.1"},
    {"deepspeech2_small", "--set train.batch_size=8"},
    {"resnet_small", "--set train.batch_size=8"},
    {"zoo_small", "--set train.batch_size=4"},
    {"bert_small", "--set train.batch_size=4"},
};

class SmallRuns : public AutoRuns, public testing::WithParamInterface<Small> {};

TEST_P(SmallRuns, TheBitsOfTheRunWithoutABudget) {
  const std::string name = GetParam().name;
  if (!std::getenv("PAL_TEST_AUTO") && name != "resnet_small" && name != "bert_small") {
    GTEST_SKIP() << "PAL_TEST_AUTO=1 tries this configuration too";
  }
  const std::string plain = "--config " + name + " " + GetParam().sets;
  const int64_t most = this->most(plain), least = this->least(plain);
  ASSERT_LT(least, most);
  ASSERT_EQ(train("free", "--steps 10 " + plain).status, 0);
  const Result expected = result("free");
  ASSERT_EQ(expected.rows, 10);
  for (const int64_t percent : {0, 35, 80}) {
    const int64_t budget = least + (most - least) * percent / 100;
    const std::string out = "run" + std::to_string(percent);
    const RunResult r =
        train(out, "--steps 10 --set memory.budget=" + std::to_string(budget) + " " + plain);
    ASSERT_EQ(r.status, 0) << r.err;
    const Result got = result(out);
    EXPECT_TRUE(got.bits == expected.bits) << percent;
    EXPECT_LE(got.peak, budget);
    EXPECT_LE(got.peak, expected.peak);  // the same where decoding needs more than the step
    EXPECT_NE(r.err.find("auto train/"), std::string::npos) << r.err;
  }
}

INSTANTIATE_TEST_SUITE_P(All, SmallRuns, testing::ValuesIn(kSmall),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_F(AutoRuns, WhatFitsAsRecordedPaysNothing) {
  const RunResult r = train("run", "--config tiny.yaml --steps 2 --set memory.budget=1GB");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.err.find("auto train/"), std::string::npos) << r.err;
  EXPECT_FALSE(fs::exists(dir_ / "cache"));
}

TEST_F(AutoRuns, BelowTheFloorItSaysWhatWouldFit) {
  const RunResult r = train("run", "--config tiny.yaml --set memory.budget=300kB");
  EXPECT_EQ(r.status, 3);
  for (const char* part : {"no plan keeps to the budget of 300 kB", "the least found is ",
                           "state, inputs and what ", " touches are ", "train.batch_size: "}) {
    EXPECT_NE(r.err.find(part), std::string::npos) << part << " in " << r.err;
  }
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  EXPECT_FALSE(fs::exists(dir_ / "run"));
}

TEST_F(AutoRuns, ACacheThatIsTornIsMadeAnew) {
  const std::string config = kWide + " --steps 3";
  const int64_t budget = (this->most(config) + this->least(config)) / 2;
  fs::remove_all(dir_ / "cache");
  const std::string within = config + " --set memory.budget=" + std::to_string(budget);
  const RunResult first = train("first", within);
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_NE(first.err.find(" plans, made in "), std::string::npos) << first.err;
  const std::string names = cached_files([](const fs::path&) {});
  EXPECT_FALSE(names.empty());
  const RunResult second = train("second", within);
  EXPECT_NE(second.err.find(" plans, looked up in "), std::string::npos) << second.err;
  EXPECT_EQ(second.err.find(" plans, made in "), std::string::npos) << second.err;
  int part = 0;
  cached_files([&](const fs::path& file) {
    fs::resize_file(file, fs::file_size(file) * uintmax_t(++part % 4) / 4);
  });
  const RunResult third = train("third", within);
  ASSERT_EQ(third.status, 0) << third.err;
  EXPECT_NE(third.err.find("it is made anew"), std::string::npos) << third.err;
  EXPECT_EQ(third.err.find(" plans, looked up in "), std::string::npos) << third.err;
  const RunResult fourth = train("fourth", within);
  EXPECT_EQ(fourth.err.find(" plans, made in "), std::string::npos) << fourth.err;
  for (const char* other : {"second", "third", "fourth"}) {
    EXPECT_TRUE(result("first").bits == result(other).bits) << other;
  }
  EXPECT_EQ(cached_files([](const fs::path&) {}), names);
}

TEST_F(AutoRuns, ResumesWithANewBudgetAndNotWithANewAllow) {
  const std::string& config = kWide;
  const int64_t most = this->most(config), least = this->least(config);
  ASSERT_EQ(train("whole", config + " --steps 8").status, 0);
  ASSERT_EQ(
      train("run", config + " --steps 3 --set memory.budget=" + std::to_string((most + least) / 2))
          .status,
      0);
  for (const char* set : {"reordered", "lossy", "lossy,reordered"}) {
    const RunResult r =
        run("train --resume --out run --steps 8 --set memory.allow=[" + std::string(set) + "]");
    EXPECT_EQ(r.status, 2) << set;
    EXPECT_NE(r.err.find("this would change results: memory.allow []"), std::string::npos) << r.err;
  }
  const RunResult r =
      run("train --resume --out run --steps 8 --set memory.budget=" + std::to_string(least));
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(result("run").bits == result("whole").bits);
}

// The translator's recordings: fused cells, the loss in chunks.
TEST_F(AutoRuns, ARecordingIsPinned) {
  const std::string config =
      "--config tiny.yaml --set train.batch_size=32 --set memory.allow=[reordered] "
      "--set model.fused=false --set data.target_vocab_size=600";
  const int64_t budget = this->most(config) / 2;
  const std::string within = config + " --set memory.budget=" + std::to_string(budget);
  const RunResult r = train("run", within + " --steps 3");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.err.find("auto: recorded with model.fused: "), std::string::npos) << r.err;
  const std::string kept = read_file(dir_ / "run/config.yaml");
  EXPECT_NE(kept.find("  fused: true"), std::string::npos) << kept;
  // It is that recording's run.
  const bool chunks = kept.find("  loss_chunks: 8") != std::string::npos;
  ASSERT_EQ(train("same",
                  "--config tiny.yaml --set train.batch_size=32 --set model.fused=true "
                  "--set data.target_vocab_size=600 --steps 6 --set model.loss_chunks=" +
                      std::string(chunks ? "8" : "1"))
                .status,
            0);
  // Gone on with the configuration as the user has it, and a budget that another would suit.
  const RunResult resumed =
      run("train --resume --out run --steps 6 " + config + " --set train.log_every=1 " +
          "--set memory.budget=" + std::to_string(budget * 2));
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_TRUE(result("run").bits == result("same").bits);
}

// Networks whose first layers have the largest maps: these run in parts of the batch.
TEST_F(AutoRuns, PartsOfTheBatchArePinned) {
  const std::string config =
      "--config zoo_small --set model.network=nin --set model.width=0.25 "
      "--set data.image_size=128 --set train.batch_size=16 --set train.warmup_steps=0 "
      "--set train.valid_every=2 ";
  const int64_t budget = this->least(config) * 7 / 10;
  const std::string within = config + " --set memory.budget=" + std::to_string(budget);
  const RunResult refused = train("refused", within + " --steps 3");
  EXPECT_EQ(refused.status, 3);
  EXPECT_NE(refused.err.find("[reordered] would fit (train.batch_parts: "), std::string::npos)
      << refused.err;
  const RunResult r = train("run", within + " --steps 3 --set memory.allow=[reordered]");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.err.find("auto: recorded with train.batch_parts: "), std::string::npos) << r.err;
  EXPECT_LE(result("run").peak, budget);
  const std::string kept = read_file(dir_ / "run/config.yaml");
  const size_t at = kept.find("  batch_parts: ");
  ASSERT_NE(at, std::string::npos) << kept;
  const std::string parts = std::to_string(std::stoll(kept.substr(at + 15)));
  EXPECT_TRUE(parts == "4" || parts == "16") << parts;
  ASSERT_EQ(train("same", config + " --steps 6 --set train.batch_parts=" + parts).status, 0);
  const RunResult resumed = run("train --resume --out run --steps 6");
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_TRUE(result("run").bits == result("same").bits);
  // It is no other training but for the last bits, which grow: a map's number near 0 may change
  // whether its gradient passes.
  ASSERT_EQ(train("whole", config + " --steps 6").status, 0);
  const auto number = [&](const std::string& out, size_t step, const char* of) {
    return nlohmann::json::parse(steps(dir_ / out)[step])[of].get<double>();
  };
  for (const char* of : {"loss", "grad_norm"}) {
    const double whole = number("whole", 0, of);
    EXPECT_NEAR(number("same", 0, of), whole, 1e-5 * whole) << of;
  }
  EXPECT_NEAR(number("same", 5, "loss"), number("whole", 5, "loss"), 0.01);
}

// Which values are rounded follows from the plan, and so from the budget.
TEST_F(AutoRuns, WhereRoundingIsAllowedTheBudgetStays) {
  const std::string config = "--config resnet_small --set train.batch_size=8 ";
  const int64_t least = this->least(config);
  const RunResult r = train("run", config + " --steps 2 --set memory.allow=[lossy] " +
                                       "--set memory.budget=" + std::to_string(least));
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_LE(result("run").peak, least);
  const RunResult other = run("train --resume --out run --steps 4 --set memory.budget=1GB");
  EXPECT_EQ(other.status, 2) << other.err;
  EXPECT_NE(other.err.find("memory.budget"), std::string::npos) << other.err;
  EXPECT_EQ(run("train --resume --out run --steps 3").status, 0);
}

// Nodes are timed for a few steps, and the plan is made anew once; the times stay for --resume.
TEST_F(AutoRuns, PlansAnewByTheTimesOfItsNodes) {
  const std::string config = kWide + kOneBucket;
  const int64_t budget = (this->most(config) + this->least(config)) / 2;
  const std::string within =
      config + "--set memory.profile_steps=2 --set memory.budget=" + std::to_string(budget);
  ASSERT_EQ(train("free", config + "--steps 14").status, 0);
  const std::string timed = "kinds of nodes timed";
  // Ended while it times, it begins to time anew.
  const RunResult early = train("run", within + " --steps 3");
  ASSERT_EQ(early.status, 0) << early.err;
  EXPECT_EQ(early.err.find(timed), std::string::npos) << early.err;
  EXPECT_FALSE(fs::exists(dir_ / "run/times.json"));
  const RunResult first = run("train --resume --out run --steps 9");
  ASSERT_EQ(first.status, 0) << first.err;
  const size_t at = first.err.find(timed);
  ASSERT_NE(at, std::string::npos) << first.err;
  EXPECT_EQ(first.err.find(timed, at + 1), std::string::npos) << first.err;
  EXPECT_NE(first.err.find("auto train/", at), std::string::npos) << first.err;
  const std::string times = read_file(dir_ / "run/times.json");
  EXPECT_EQ(times.find("\"count\":0,"), std::string::npos) << times;
  EXPECT_NE(times.find("\"device\":\"cpu, 1 threads\""), std::string::npos) << times;
  int64_t step = 9;
  const auto resume = [&](const std::string& what) {
    const RunResult r = run("train --resume --out run --steps " + std::to_string(++step));
    EXPECT_EQ(r.status, 0) << what << r.err;
    return r.err;
  };
  EXPECT_EQ(resume("").find(timed), std::string::npos);
  const std::string other = "\"device\":\"cpu, 7 threads\"";
  std::string of_other = times, no_time = times;
  of_other.replace(of_other.find("\"device\":"), other.size(), other);
  no_time.replace(no_time.find("\"scale\":") + 8, 1, "-");
  const std::pair<const char*, std::string> broken[] = {
      {"torn", times.substr(0, times.size() / 2)},
      {"of another device", of_other},
      {"no time", no_time},
      {"null", std::string("{\"device\":\"cpu, 1 threads\",\"scale\":null,\"ms\":{}}")}};
  for (const auto& [what, text] : broken) {
    std::ofstream(dir_ / "run/times.json") << text;
    const std::string said = resume(what);
    EXPECT_NE(said.find("times.json: no times that count ("), std::string::npos) << what << said;
    if (std::string(what) == "of another device") {
      EXPECT_NE(said.find("it is of cpu, 7 threads"), std::string::npos) << said;
    }
  }
  EXPECT_TRUE(result("run").bits == result("free").bits);
}

// At any moment: while timing, while the plans are made anew, after.
TEST_F(AutoRuns, KilledWhileTimingOrPlanningAnewItGoesOnWithTheSameBits) {
  const std::string config = kWide + kOneBucket;
  const int64_t budget = (this->most(config) + this->least(config)) / 2;
  ASSERT_EQ(train("free", config + "--steps 12").status, 0);
  std::istringstream words(
      "train --out run --set device.threads=1 --set train.log_every=1 " + config +
      "--set memory.profile_steps=2 --steps 12 --set memory.budget=" + std::to_string(budget));
  std::vector<std::string> args{std::istream_iterator<std::string>(words), {}};
  // The second time the first front is found on disk, as the killed runs will find it.
  int whole_ms = 0;
  for (const char* name : {"first", "timed"}) {
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(train(name, config + "--set memory.profile_steps=2 --steps 12 --set memory.budget=" +
                              std::to_string(budget))
                  .status,
              0);
    const auto whole = std::chrono::steady_clock::now() - begin;
    whole_ms = int(std::chrono::duration_cast<std::chrono::milliseconds>(whole).count());
  }
  ASSERT_TRUE(fs::exists(dir_ / "timed/times.json"));
  int killed = 0;
  RunResult last{.status = -SIGKILL};
  for (int tenths = 1; last.status == -SIGKILL; ++tenths) {
    last = pal(args, SIGKILL, tenths < 10 ? whole_ms * tenths / 10 : -1);
    killed += last.status == -SIGKILL;
    if (holds_run() && args[1] != "--resume") args.insert(args.begin() + 1, "--resume");
  }
  EXPECT_GT(killed, 0);
  ASSERT_EQ(last.status, 0) << last.err;
  EXPECT_TRUE(result("run").bits == result("free").bits);
}

TEST_F(AutoRuns, AccumulationValidationAndAveragesCount) {
  const std::string config =
      "--config resnet_small --set train.batch_size=8 --set train.accumulate=3 "
      "--set train.ema=0.9 ";
  const int64_t most = this->most(config), least = this->least(config);
  const int64_t budget = least + (most - least) / 3;
  ASSERT_EQ(train("free", config + " --steps 3").status, 0);
  const RunResult r =
      train("run", config + " --steps 3 --set memory.budget=" + std::to_string(budget));
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(result("run").bits == result("free").bits);
  // A front for each place of a micro-batch that does not fit as it was recorded.
  for (const char* kind : {"first", "last"}) {
    EXPECT_NE(r.err.find("auto train/28x28/" + std::string(kind) + ": "), std::string::npos)
        << r.err;
  }
  std::ifstream in(dir_ / "run" / "metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto row = nlohmann::json::parse(line);
    if (row.contains("arena_bytes")) {
      EXPECT_LE(row["arena_bytes"].get<int64_t>(), budget) << line;
    }
  }
}

}  // namespace
}  // namespace pal
