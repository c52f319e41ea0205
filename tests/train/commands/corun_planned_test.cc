// pal corun before the start: what is planned and printed, what is refused, and that no folder is
// touched.
#include <map>
#include <regex>
#include <set>

#include "tests/train/commands/corun_runs.h"

namespace pal {
namespace {

TEST_F(Corun, ADryRunPlansAndWritesNothing) {
  const Words before = files();
  const RunResult r = corun({"text.yaml", "image.yaml", "--out", "run", "--dry-run", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  fs::remove(dir_ / "stdout.txt"), fs::remove(dir_ / "stderr.txt");
  EXPECT_EQ(files(), before);
  const nlohmann::json said = nlohmann::json::parse(r.out);
  int64_t sum = 0;
  for (const nlohmann::json& job : said["jobs"]) {
    ASSERT_TRUE(job.contains("plan")) << job;
    sum += job["bytes"].get<int64_t>();
    EXPECT_LE(job["plan"]["bytes"]["total"], job["bytes"]);  // of all programs
  }
  ASSERT_EQ(said["jobs"].size(), 2u);
  EXPECT_EQ(said["memory"]["bytes"], sum);
}

TEST_F(Corun, WhatCannotRunTogetherIsOneClearLineAndTouchesNoFolder) {
  fs::create_directories(dir_ / "old");
  fs::copy_file(dir_ / "text.yaml", dir_ / "old/config.yaml");
  const Words before = files();
  struct Case {
    Words args;
    int status;
    Words says;
  };
  const std::vector<Case> cases{
      {{"old", "old/", "--resume"}, 2, {"job 1 (old) and job 2 (old) have the same folder"}},
      {{"text.yaml", "text.yaml", "--set", "2:device.type=cuda"},
       2,
       {"job 1 (text) has device.type cpu, job 2 (text) has cuda"}},
      {{"text.yaml", "image.yaml", "text.yaml", "--set", "3:device.type=cuda"},
       2,
       {"job 1 (text) has device.type cpu, job 3 (text) has cuda"}},
      {{"text.yaml", "text.yaml", "--scheduler", "zico"}, 2, {"--scheduler zico", "--mode auto"}},
      {{"text.yaml", "text.yaml", "--mode", "shared", "--scheduler", "zico", "--goal", "fair"},
       2,
       {"--scheduler zico: knows no --goal fair"}},
      {{"text.yaml", "text.yaml", "--resume"}, 2, {"runs/corun_text_text/1: holds no run"}},
      {{"text.yaml", "image.yaml", "--budget", "100kB"},
       3,
       {"job 1 (text) ", "job 2 (image) ", " over the budget of 100 kB", "--budget"}},
      {{"text.yaml", "image.yaml", "--set", "2:memory.budget=1kB"},
       3,
       {"job 2 (image): no plan keeps to the budget of 1.00 kB"}},
  };
  for (const Case& c : cases) {
    const RunResult r = corun(c.args);
    EXPECT_EQ(r.status, c.status) << r.err;
    const Words lines = lines_of(r.err);
    ASSERT_FALSE(lines.empty());
    EXPECT_TRUE(lines.back().starts_with("pal: ")) << r.err;
    for (const std::string& part : c.says) {
      EXPECT_NE(lines.back().find(part), std::string::npos) << part << "\n" << lines.back();
    }
    EXPECT_TRUE(c.status == 3 || lines.size() == 1) << r.err;
    EXPECT_EQ(r.out, "");
    fs::remove(dir_ / "stdout.txt"), fs::remove(dir_ / "stderr.txt");
    fs::remove_all(dir_ / "cache");  // fronts
    EXPECT_EQ(files(), before);
  }
}

// Validation and the final test need more than the steps do: they are counted before the start, and
// what does not fit beside the other job runs alone.
TEST_F(Corun, AllProgramsArePlannedBeforeTheStart) {
  // A long text to validate on and to translate beside short ones to train on.
  const Words sets{"--set", "1:train.batch_size=1", "--set", "1:train.accumulate=2"};
  const auto with = [&](Words more) {
    Words all{"text.yaml", "image.yaml", "--out", "run"};
    all.insert(all.end(), sets.begin(), sets.end());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto memory = [&](const std::string& mode) {
    const RunResult r = corun(with({"--mode", mode, "--dry-run", "--json"}));
    EXPECT_EQ(r.status, 0) << r.err;
    return nlohmann::json::parse(r.out);
  };
  // Each with its own memory: what is counted before the start is what is there at the end.
  const nlohmann::json before = memory("unshared");
  const RunResult r = corun(with({}));
  ASSERT_EQ(r.status, 0) << r.err;
  for (const size_t j : {0u, 1u}) {
    std::ifstream in(dir_ / "run" / std::to_string(j + 1) / "metrics.jsonl");
    nlohmann::json last;
    for (std::string line; std::getline(in, line);) last = nlohmann::json::parse(line);
    EXPECT_EQ(last["event"], "end");
    EXPECT_EQ(before["jobs"][j]["bytes"], last["arena_bytes"]) << j;
  }
  // In turns with not a byte too many.
  alone("text.yaml", "a", {"--set", "train.batch_size=1", "--set", "train.accumulate=2"});
  const int64_t least = memory("turns")["memory"]["bytes"];
  fs::remove_all(dir_ / "run");
  const RunResult exact = corun(with({"--mode", "turns", "--budget", std::to_string(least)}));
  EXPECT_EQ(exact.status, 0) << exact.err;
  same_run("a", "run/1");
  fs::remove_all(dir_ / "run");
  const RunResult less = corun(with({"--mode", "turns", "--budget", std::to_string(least - 1)}));
  EXPECT_EQ(less.status, 3) << less.err;
  EXPECT_NE(lines_of(less.err).back().find(" short of what the jobs need"), std::string::npos);
  EXPECT_FALSE(fs::exists(dir_ / "run"));
}

// What was planned before the start is written down as where it is planned while the run goes on.
TEST_F(Corun, PlansMadeBeforeTheStartHaveTheirRows) {
  const Words sets{"--set", "train.accumulate=3",
                   "--set", "device.threads=1",
                   "--set", "train.overlap_micro_batches=true"};
  // Nodes and bytes by program.
  const auto plans = [&](const std::string& run, size_t* before_steps = nullptr) {
    std::map<std::string, std::string> rows;
    std::ifstream in(dir_ / run / "metrics.jsonl");
    for (std::string line; std::getline(in, line);) {
      nlohmann::json row = nlohmann::json::parse(line);
      if (row["event"] == "step" && row["step"] == 1 && before_steps) *before_steps = rows.size();
      if (row["event"] != "plan") continue;
      EXPECT_GT(row["compile_seconds"], 0);
      row.erase("compile_seconds"), row.erase("step");
      const std::string program = row["program"];
      EXPECT_TRUE(rows.emplace(program, row.dump()).second) << program << " twice";
    }
    return rows;
  };
  alone("text.yaml", "a", sets);
  Words args{"text.yaml", "image.yaml", "--out", "run"};
  args.insert(args.end(), sets.begin(), sets.end());
  const RunResult r = corun(args);
  ASSERT_EQ(r.status, 0) << r.err;
  const auto met = plans("a");
  size_t before = 0;
  const auto planned = plans("run/1", &before);
  for (const auto& [program, row] : met) {
    ASSERT_TRUE(planned.contains(program)) << program;
    EXPECT_EQ(planned.at(program), row);
  }
  // The largest is planned before the start in either.
  const nlohmann::json largest = nlohmann::json::parse(read_file(dir_ / "a/plan.json"));
  const std::string lengths = largest["bucket"][0].dump() + "x" + largest["bucket"][1].dump();
  EXPECT_TRUE(met.contains("train/" + lengths + "/last"));
  EXPECT_TRUE(met.contains("train/" + lengths + "/first+middle"));
  // All of them: of every bucket three steps and two pairs.
  EXPECT_EQ(before, planned.size());
  std::set<std::string> buckets;
  for (const auto& each : planned) buckets.insert(each.first.substr(0, each.first.rfind('/')));
  EXPECT_GT(buckets.size(), 1u);
  EXPECT_EQ(planned.size(), 5 * buckets.size());
}

// Lines, JSON and the circle's pattern say how three jobs share, from tight budgets to wide ones.
TEST_F(Corun, ADryRunSaysHowJobsShare) {
  const auto dry = [&](const std::string& mode, const std::string& budget) {
    return corun({"image.yaml", "image.yaml", "image.yaml", "--mode", mode, "--budget", budget,
                  "--dry-run", "--json", "--out", "run"});
  };
  const nlohmann::json turns = nlohmann::json::parse(dry("turns", "1GB").out)["memory"];
  EXPECT_FALSE(turns.contains("pattern") || turns.contains("period_ms")) << turns;
  const int64_t least = turns["bytes"];
  bool with_others = false;
  for (const int64_t percent : {124, 150}) {
    const RunResult r = dry("shared", std::to_string(least * percent / 100));
    ASSERT_EQ(r.status, 0) << r.err;
    const nlohmann::json memory = nlohmann::json::parse(r.out)["memory"];
    const bool circle = memory["way"] == "circle", groups = memory["way"] == "groups";
    EXPECT_EQ(memory.contains("period_ms"), circle) << memory;
    EXPECT_EQ(r.err.find(" steps in ") != std::string::npos, circle) << r.err;
    if (circle) {
      ASSERT_EQ(memory["pattern"].size(), 3u);
      for (const nlohmann::json& job : memory["pattern"]) {
        EXPECT_GE(job["steps"], 1);
        EXPECT_LT(job["begins_ms"], memory["period_ms"]);
        with_others |= job["programs"] > 1;
      }
    }
    EXPECT_EQ(memory.contains("groups"), groups) << memory;
    std::multiset<int> jobs;
    for (const nlohmann::json& group : memory.value("groups", nlohmann::json::array())) {
      std::string line = " job ";
      for (const int job : group["jobs"]) {
        line += (line == " job " ? "" : " with ") + std::to_string(job);
        jobs.insert(job);
      }
      EXPECT_NE(r.err.find(line + " in "), std::string::npos) << line << "\n" << r.err;
    }
    EXPECT_TRUE(!groups || jobs == (std::multiset<int>{1, 2, 3})) << memory;
  }
  EXPECT_TRUE(with_others) << "validation runs beside the others' steps";
}

TEST_F(Corun, AJobThatIsTooLargeAloneIsNamed) {
  const nlohmann::json said = nlohmann::json::parse(
      corun({"text.yaml", "image.yaml", "--mode", "turns", "--dry-run", "--json"}).out);
  const int64_t image = said["memory"]["own_bytes"].get<int64_t>() / 2;
  const RunResult r = corun({"text.yaml", "image.yaml", "--set", "2:train.batch_size=64", "--mode",
                             "shared", "--out", "run", "--budget", std::to_string(image)});
  EXPECT_EQ(r.status, 3);
  const std::string last = lines_of(r.err).back();
  EXPECT_NE(last.find(" alone needs "), std::string::npos) << last;
  EXPECT_NE(last.find(" more than "), std::string::npos) << last;
  EXPECT_FALSE(fs::exists(dir_ / "run"));
}

// Each storage of the pool is a rectangle with its bytes and address, each step a box.
TEST_F(Corun, APageShowsStepsAndAddresses) {
  for (const char* mode : {"shared", "turns", "minutes"}) {
    const RunResult r = corun({"image.yaml", "text.yaml", "--mode", mode, "--dry-run", "--html",
                               "page.html", "--out", "run", "--json"});
    ASSERT_EQ(r.status, 0) << r.err;
    const std::string page = read_file(dir_ / "page.html");
    for (const char* job : {"image", "text"}) {
      EXPECT_NE(page.find(std::string("<title>") + job + ", step 1 of "), std::string::npos);
      const std::regex storage(std::string("<title>") + job +
                               ", step 1: [0-9.]+ k?B at [0-9.]+ k?B");
      EXPECT_TRUE(std::regex_search(page, storage)) << mode << ", " << job;
    }
    EXPECT_EQ(page.find("http"), page.find("http://www.w3.org")) << "nothing from a network";
    EXPECT_FALSE(fs::exists(dir_ / "run"));
    fs::remove(dir_ / "page.html");
  }
  EXPECT_EQ(corun({"image.yaml", "text.yaml", "--html", "page.html"}).status, 2);
  EXPECT_EQ(corun({"image.yaml", "text.yaml", "--html", "page.html", "--dry-run"}).status, 2);
}

}  // namespace
}  // namespace pal
