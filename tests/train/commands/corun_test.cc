// pal corun: jobs side by side have the bits of each alone, also killed and resumed; a job that
// fails leaves the others alone; what is refused, and what is printed.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "core/device.h"
#include "tests/train/loop/whole_runs.h"
#include "train/commands/job.h"
#include "train/config/config.h"
#include "train/config/profile.h"
#include "train/images/image_task.h"
#include "train/loop/run_options.h"
#include "train/loop/trainer.h"
#include "train/tasks/make_task.h"

namespace pal {
namespace {

using Words = std::vector<std::string>;

Words lines_of(const std::string& text) {
  Words lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

class Corun : public RunTest {
 protected:
  Corun() {
    std::ofstream(dir_ / "text.yaml")
        << "model: {type: nmt, hidden: 8, embedding: 6, attention_size: 4, encoder_layers: 1,\n"
           "  decoder_layers: 1, dropout: 0.2}\n"
           "data: {synthetic: true, source_vocab_size: 20, target_vocab_size: 15, max_length: 5}\n"
           "train: {batch_size: 8, steps: 6, lr: 0.02, valid_every: 1000, log_every: 1}\n"
           "device: {type: cpu}\n";
    std::ofstream(dir_ / "image.yaml")
        << "model: {type: resnet, family: cifar, depth: 8, width: 4}\n"
           "data: {synthetic: true, classes: 4, image_size: 8}\n"
           "train: {batch_size: 8, steps: 6, optimizer: momentum, lr: 0.05, log_every: 1,\n"
           "  valid_every: 1000}\n"
           "device: {type: cpu, threads: 1}\n";
  }
  RunResult corun(Words more, int signal = 0, int after_ms = -1) {
    more.insert(more.begin(), "corun");
    const auto given = [&](const char* flag) { return std::count(more.begin(), more.end(), flag); };
    if (!given("--budget")) more.insert(more.end(), {"--budget", "1GB"});
    if (!given("--mode")) more.insert(more.end(), {"--mode", "unshared"});
    return pal(more, signal, after_ms);
  }
  void alone(const std::string& name, const std::string& out, Words more = {}) {
    more.insert(more.begin(), {"train", "--config", name, "--out", out});
    const RunResult r = pal(more);
    ASSERT_EQ(r.status, 0) << r.err;
  }
  void same_run(const std::string& a, const std::string& b) {
    const std::string weights = read_file(dir_ / a / "last.safetensors");
    EXPECT_GT(weights.size(), 1000u) << a;
    EXPECT_TRUE(weights == read_file(dir_ / b / "last.safetensors")) << a << ", " << b;
    EXPECT_EQ(losses(a), losses(b));
  }
  // The step rows without the plan's bytes: scratch memory grows with the threads.
  std::vector<nlohmann::json> losses(const std::string& run) {
    std::vector<nlohmann::json> rows;
    for (const std::string& row : steps(dir_ / run)) {
      rows.push_back(nlohmann::json::parse(row));
      rows.back().erase("peak_bytes");
    }
    return rows;
  }
  // Everything under the folder of the test.
  Words files() const {
    Words names;
    for (auto& entry : fs::recursive_directory_iterator(dir_)) names.push_back(entry.path());
    std::sort(names.begin(), names.end());
    return names;
  }
};

TEST_F(Corun, JobsHaveTheBitsOfEachAlone) {
  alone("text.yaml", "a");
  alone("image.yaml", "b", {"--set", "train.seed=3"});
  const RunResult r =
      corun({"text.yaml", "image.yaml", "--out", "both", "--set", "2:train.seed=3", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  same_run("a", "both/1");
  same_run("b", "both/2");

  const nlohmann::json said = nlohmann::json::parse(r.out);
  EXPECT_EQ(said["mode"], "unshared");
  EXPECT_EQ(said["budget"], 1'000'000'000);
  ASSERT_EQ(said["jobs"].size(), 2u);
  EXPECT_EQ(said["jobs"][0]["name"], "text");
  EXPECT_EQ(said["jobs"][1]["name"], "image");
  EXPECT_EQ(said["jobs"][1]["out"], "both/2");
  EXPECT_TRUE(said["jobs"][0]["test"].contains("bleu"));
  EXPECT_TRUE(said["jobs"][1]["test"].contains("top1"));
  for (const nlohmann::json& job : said["jobs"]) {
    EXPECT_EQ(job["steps"], 6);
    EXPECT_EQ(job["reason"], "steps");
    EXPECT_GT(job["seconds"], 0);
    EXPECT_GT(job["epoch"], 0);
    EXPECT_FALSE(job.contains("error"));
  }

  // Every line but that about the memory of all names its job; the last ones say how each ended.
  const Words lines = lines_of(r.err);
  ASSERT_GT(lines.size(), 20u);
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const std::string& line) {
                            return !line.starts_with("[1 text] ") &&
                                   !line.starts_with("[2 image] ");
                          }),
            1)
      << r.err;
  EXPECT_TRUE(lines[lines.size() - 2].starts_with("[1 text] ended  step 6  epoch "));
  EXPECT_TRUE(lines.back().starts_with("[2 image] ended  step 6  epoch "));
  EXPECT_TRUE(lines.back().ends_with("(steps)  both/2"));

  // A job without device.threads has its share of the processors, which its configuration does not
  // keep: alone it may have them all.
  const int share = std::max(1, cpu_device(0).threads / 2);
  EXPECT_NE(r.err.find("[1 text] device  cpu, " + std::to_string(share) + " thread"),
            std::string::npos)
      << r.err;
  EXPECT_EQ(*load_config(dir_ / "both/1/config.yaml").device.threads, std::nullopt);
}

// From what turns need to what all need side by side.
TEST_F(Corun, EveryModeWithinEveryBudgetLeavesTheBits) {
  const auto bytes = [&](const std::string& mode) {
    const RunResult r = corun({"image.yaml", "image.yaml", "--set", "2:train.seed=3", "--mode",
                               mode, "--out", "dry", "--dry-run", "--json"});
    EXPECT_EQ(r.status, 0) << r.err;
    return nlohmann::json::parse(r.out)["memory"]["bytes"].get<int64_t>();
  };
  alone("image.yaml", "a");
  alone("image.yaml", "b", {"--set", "train.seed=3"});
  const int64_t least = bytes("turns"), most = bytes("unshared");
  ASSERT_LT(least, most);
  std::set<std::string> ways;
  for (int i = 0; i <= 2; ++i) {
    const std::string budget = std::to_string(least + (most - least) * i / 2);
    for (const char* mode : {"auto", "shared", "turns", "minutes"}) {
      fs::remove_all(dir_ / "both");
      const RunResult r = corun({"image.yaml", "image.yaml", "--set", "2:train.seed=3", "--out",
                                 "both", "--mode", mode, "--budget", budget, "--json"});
      if (r.status == 3 && std::string(mode) == "shared") continue;
      ASSERT_EQ(r.status, 0) << mode << " " << budget << "\n" << r.err;
      same_run("a", "both/1");
      same_run("b", "both/2");
      const nlohmann::json memory = nlohmann::json::parse(r.out)["memory"];
      EXPECT_LE(memory["bytes"].get<int64_t>(), std::stoll(budget));
      EXPECT_GE(memory["predicted"]["total"], 1);
      ways.insert(memory["way"]);
    }
  }
  EXPECT_TRUE(ways.contains("shared")) << "a circle";
  EXPECT_TRUE(ways.contains("turns"));

  const RunResult r = corun({"image.yaml", "image.yaml", "--out", "none", "--mode", "auto",
                             "--budget", std::to_string(least * 95 / 100)});
  EXPECT_EQ(r.status, 3);
  for (const char* part : {"--budget: ", "short of what the jobs need", "job 1 (image)",
                           "job 2 (image)", "of which"}) {
    EXPECT_NE(lines_of(r.err).back().find(part), std::string::npos) << r.err;
  }
  EXPECT_FALSE(fs::exists(dir_ / "none"));
}

// Freed bytes are filled with NaN: a read of what another job has written meanwhile, or of what is
// over, would show.
TEST_F(Corun, PoisonedJobsHaveTheBitsOfEachAlone) {
  alone("image.yaml", "a", {"--steps", "12"});
  alone("image.yaml", "b", {"--steps", "12", "--set", "train.seed=3"});
  std::set<CorunWay::Kind> kinds;
  for (int i = 0; i <= 4; ++i) {
    const auto pool = std::make_shared<SharedPool>(2);
    TrainArgs args[2];
    std::vector<std::unique_ptr<Trainer>> trainers;
    std::vector<StepShape> shapes;
    for (int j = 0; j < 2; ++j) {
      args[j].config =
          load_config(dir_ / "image.yaml",
                      {{"train.steps", "12", "test"}, {"train.seed", j == 0 ? "1" : "3", "test"}});
      args[j].name = "image", args[j].out = dir_ / ("poisoned" + std::to_string(j));
      fs::remove_all(args[j].out);
      fs::create_directories(args[j].out);
      trainers.push_back(
          std::make_unique<Trainer>(args[j], make_task(args[j]), PoolShare{pool, JobId(j)}));
      trainers[size_t(j)]->add_all_programs();
      Executable& step = trainers[size_t(j)]->largest();
      step.runner().set_options({.poison = true});
      const Compiled& c = step.compiled();
      shapes.push_back(step_shape("step", c.program, c.storages, c.plan, default_profile()));
    }
    CorunSearch search({&shapes[0], &shapes[1]});
    const int64_t span = search.most_bytes() - search.least_bytes();
    PoolUse use{.way = *search.within(search.least_bytes() + span * i / 4), .jobs = {0, 1}};
    kinds.insert(use.way.kind);
    use.bytes = std::max({use.way.pool_bytes, pool->needs(0).height, pool->needs(1).height});
    use.parts = {search.part_of(0), search.part_of(1)};
    pool->use(use);
    const std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (size_t j = 0; j < 2; ++j) {
      threads.emplace_back([&, j] {
        trainers[j]->run(stop);
        pool->leave(JobId(j));
      });
    }
    for (auto& thread : threads) thread.join();
    same_run("a", "poisoned0");
    same_run("b", "poisoned1");
  }
  EXPECT_GE(kinds.size(), 2u);
}

// One leaves the pool in the middle of a step; the other goes on alone.
TEST_F(Corun, AJobThatFailsLeavesThePool) {
  const RunResult r = corun({"image.yaml", "image.yaml", "--out", "run", "--mode", "shared",
                             "--set", "2:train.lr=1000", "--set", "2:train.optimizer=sgd", "--set",
                             "2:train.weight_decay=1000", "--set", "2:train.steps=400", "--set",
                             "1:train.steps=40"});
  EXPECT_EQ(r.status, 1) << r.err;
  alone("image.yaml", "a", {"--steps", "40"});
  same_run("a", "run/1");
}

TEST_F(Corun, ASignalSavesAllJobsAndTheyGoOnTogetherOrAlone) {
  const Words jobs{"text.yaml", "image.yaml", "--out", "run"};
  Words endless = jobs;
  endless.insert(endless.end(), {"--steps", "1000000", "--set", "train.log_every=1"});
  RunResult r;
  for (int wait = 300; wait < 20000; wait *= 2) {  // long enough to have begun
    fs::remove_all(dir_ / "run");
    r = corun(endless, SIGTERM, wait);
    if (r.status == 130) break;
  }
  ASSERT_EQ(r.status, 130) << r.err;
  EXPECT_NE(r.err.find("[1 text] interrupted at step "), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("[2 image] interrupted at step "), std::string::npos) << r.err;
  EXPECT_EQ(lines_of(r.err).back(), "interrupted; go on with the same command and --resume");

  int64_t most = 0;
  for (const char* run : {"run/1", "run/2"}) {
    const Words rows = steps(dir_ / run);
    if (!rows.empty())
      most = std::max(most, nlohmann::json::parse(rows.back())["step"].get<int64_t>());
  }
  const std::string half = std::to_string(most + 2), whole = std::to_string(most + 4);
  Words again = jobs;
  again.insert(again.end(), {"--resume", "--steps", half});
  r = corun(again);
  ASSERT_EQ(r.status, 0) << r.err;
  ASSERT_EQ(pal({"train", "--resume", "--out", "run/1", "--steps", whole}).status, 0);
  r = corun({"run/1", "run/2", "--resume", "--steps", whole});
  ASSERT_EQ(r.status, 0) << r.err;
  alone("text.yaml", "a", {"--steps", whole});
  alone("image.yaml", "b", {"--steps", whole});
  same_run("a", "run/1");
  same_run("b", "run/2");
}

// Numbers alone would name nobody.
TEST_F(Corun, ARunsFolderThatIsANumberHasItsParentsNameToo) {
  alone("text.yaml", "run/1", {"--steps", "2"});
  alone("text.yaml", "own", {"--steps", "2"});
  const RunResult r = corun({"own", "run/1", "--resume", "--steps", "3"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.err.find("[1 own] ended  step 3"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("[2 run-1] ended  step 3"), std::string::npos) << r.err;
}

// What a configuration does not say is divided, what it says is kept, and neither is written down.
TEST_F(Corun, TheHostsThreadsAndCopiesAreDivided) {
  TrainArgs args;
  args.config = load_config(dir_ / "image.yaml", {{"memory.swap", "vdnn", "--set"}});
  const int workers = workers_of(args.config.images());
  const auto copies = run_options(args.config.memory).host_budget;
  ASSERT_TRUE(copies);
  Job job(args);
  job.divide_host(4);
  EXPECT_EQ(*job.config().images().workers, std::max(1, workers / 4));
  ASSERT_TRUE(job.config().memory.host_budget->has_value());
  const double part = double((*job.config().memory.host_budget)->bytes) / double(*copies);
  EXPECT_NEAR(part, 0.25, 0.05);  // other programs come and go meanwhile
  EXPECT_EQ(*job.args().config.images().workers, std::nullopt);
  EXPECT_FALSE(job.args().config.memory.host_budget->has_value());

  args.config = load_config(dir_ / "image.yaml", {{"data.workers", "3", "--set"},
                                                  {"memory.swap", "vdnn", "--set"},
                                                  {"memory.host_budget", "1GB", "--set"}});
  Job told(args);
  told.divide_host(4);
  EXPECT_EQ(*told.config().images().workers, 3);
  EXPECT_EQ((*told.config().memory.host_budget)->bytes, 1'000'000'000);

  args.config = load_config(dir_ / "text.yaml", {});
  Job text(args);  // it reads no images and makes no copies
  text.divide_host(2);
  EXPECT_FALSE(text.config().memory.host_budget->has_value());
}

TEST_F(Corun, AJobThatHadNotBegunBeginsWhenTheOthersGoOn) {
  alone("text.yaml", "run/1", {"--steps", "3"});
  alone("text.yaml", "a");
  const RunResult r = corun({"text.yaml", "text.yaml", "--out", "run", "--resume"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.err.find("[2 text] run/2: holds no run yet; starting at step 0"), std::string::npos);
  same_run("a", "run/1");
  same_run("a", "run/2");
}

TEST_F(Corun, ASecondSignalEndsTheProcessAtOnce) {
  RunResult r;
  second_signal_ = SIGINT;
  const Words endless{"text.yaml", "image.yaml", "--out", "run", "--steps", "1000000"};
  for (int wait = 300; wait < 20000; wait *= 2) {
    fs::remove_all(dir_ / "run");
    r = corun(endless, SIGTERM, wait);
    if (!steps(dir_ / "run/1").empty()) break;
  }
  EXPECT_TRUE(r.status == -SIGTERM || r.status == -SIGINT) << r.status << r.err;
}

TEST_F(Corun, AJobThatFailsLeavesTheOthersAlone) {
  // Job 2 diverges; the checkpoint of job 3 cannot be made, as on a full disk.
  fs::create_directories(dir_ / "run/3/last.safetensors.tmp");
  const RunResult r =
      corun({"text.yaml", "image.yaml", "text.yaml", "--out", "run", "--set", "2:train.lr=1000",
             "--set", "2:train.optimizer=sgd", "--set", "2:train.weight_decay=1000", "--set",
             "2:train.steps=400", "--set", "3:train.save_every=2", "--json"});
  EXPECT_EQ(r.status, 1) << r.err;
  alone("text.yaml", "a");
  same_run("a", "run/1");

  const Words lines = lines_of(r.err);
  ASSERT_GT(lines.size(), 3u);
  EXPECT_TRUE(lines[lines.size() - 3].starts_with("[1 text] ended  step 6")) << r.err;
  const std::string& nan = lines[lines.size() - 2];
  EXPECT_TRUE(nan.starts_with("pal: job 2 (image), run/2: ")) << nan;
  EXPECT_NE(nan.find("lower train.lr"), std::string::npos) << nan;
  EXPECT_TRUE(lines.back().starts_with("pal: job 3 (text), run/3: [save] ")) << r.err;
  EXPECT_NE(r.err.find("[2 image] pal: "), std::string::npos);  // at the time, too

  const nlohmann::json jobs = nlohmann::json::parse(r.out)["jobs"];
  ASSERT_EQ(jobs.size(), 3u);
  EXPECT_EQ(jobs[0]["reason"], "steps");
  EXPECT_TRUE(jobs[0].contains("test"));
  for (const size_t failed : {1u, 2u}) {
    EXPECT_EQ(jobs[failed]["reason"], "failed");
    EXPECT_FALSE(jobs[failed]["error"].get<std::string>().empty());
    EXPECT_FALSE(jobs[failed].contains("test"));
  }
  EXPECT_EQ(jobs[2]["steps"], 2);
}

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
      {{"text.yaml", "text.yaml", "--resume"}, 2, {"runs/corun_text_text/1: holds no run"}},
      {{"text.yaml", "image.yaml", "--budget", "100kB"},
       3,
       {"job 1 (text) ", "job 2 (image) ", " over the budget of 100 kB", "--budget"}},
      {{"text.yaml", "image.yaml", "--set", "2:memory.budget=1kB"},
       3,
       {"job 2 (image): the step needs"}},
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

TEST_F(Corun, TurnsOfMinutes) {
  alone("image.yaml", "a", {"--steps", "30"});
  alone("text.yaml", "b", {"--steps", "30"});
  const RunResult r = corun({"image.yaml", "text.yaml", "--steps", "30", "--mode", "minutes",
                             "--minutes", "0.001", "--out", "run"});
  ASSERT_EQ(r.status, 0) << r.err;
  same_run("a", "run/1");
  same_run("b", "run/2");
  EXPECT_EQ(corun({"image.yaml", "text.yaml", "--mode", "minutes", "--minutes", "0"}).status, 2);
  const RunResult small =
      corun({"image.yaml", "text.yaml", "--mode", "minutes", "--budget", "350kB"});
  EXPECT_EQ(small.status, 3);
  EXPECT_NE(small.err.find("in mode minutes ("), std::string::npos) << small.err;
}

// How many bytes of memory a process has.
int64_t resident_bytes(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string key; status >> key;) {
    int64_t kibibytes = 0;
    if (key == "VmRSS:" && status >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

// Runs of pal corun that a test watches and steers while they run.
class CorunWhileItRuns : public Corun {
 protected:
  CorunWhileItRuns() {
    std::ofstream(dir_ / "endless.yaml")
        << "model: {type: resnet, family: cifar, depth: 8, width: 16}\n"
           "data: {synthetic: true, classes: 4, image_size: 16}\n"
           "train: {batch_size: 64, steps: 1000000, lr: 0.05, log_every: 1, valid_every: 1000000}\n"
           "device: {type: cpu, threads: 1}\n";
  }
  ~CorunWhileItRuns() override {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  void start(Words args) {
    args.insert(args.begin(), {PAL_BINARY, "corun"});
    std::vector<char*> argv;
    for (auto& a : args) argv.push_back(a.data());
    argv.push_back(nullptr);
    process_ = fork();
    if (process_ != 0) return;
    dup2(open((dir_ / "stderr.txt").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
    if (chdir(dir_.c_str()) != 0) _exit(99);
    setenv("OMP_WAIT_POLICY", "passive", 0);
    execv(PAL_BINARY, argv.data());
    _exit(99);
  }
  std::string log() const { return read_file(dir_ / "stderr.txt"); }
  void write_budget(const std::string& text) {
    std::ofstream(dir_ / "run/budget.new") << text << "\n";
    fs::rename(dir_ / "run/budget.new", dir_ / "run/budget");
  }
  // The last step that a job has logged.
  int64_t step_of(int job) {
    std::ifstream in(dir_ / "run" / std::to_string(job) / "metrics.jsonl");
    int64_t step = 0;
    for (std::string line; std::getline(in, line);) {
      const nlohmann::json row = nlohmann::json::parse(line, nullptr, false);
      if (!row.is_discarded() && row["event"] == "step") step = row["step"];
    }
    return step;
  }
  template <class Is> bool soon(Is is) {
    for (int i = 0; i < 1500; ++i) {
      if (is()) return true;
      if (waitpid(process_, &status_, WNOHANG) == process_) {
        process_ = -1;
        return is();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }
  // Both jobs take so many steps more.
  bool step_on(int64_t steps) {
    const int64_t a = step_of(1), b = step_of(2);
    return soon([&] { return step_of(1) >= a + steps && step_of(2) >= b + steps; });
  }
  int end() {
    if (process_ > 0) {
      kill(process_, SIGTERM);
      waitpid(process_, &status_, 0);
    }
    process_ = -1;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
  }
  int64_t bytes(const std::string& mode) {
    const RunResult r = corun({"endless.yaml", "endless.yaml", "--mode", mode, "--budget", "10GB",
                               "--dry-run", "--json", "--out", "dry"});
    EXPECT_EQ(r.status, 0) << r.err;
    return nlohmann::json::parse(r.out)["memory"]["bytes"];
  }
  // The bytes of a fresh run alone have the run's bits at whatever step it has come to.
  void same_as_alone(int job) {
    const std::string steps = std::to_string(step_of(job));
    fs::remove_all(dir_ / "alone");
    alone("endless.yaml", "alone", {"--steps", steps});
    const std::string run = "run/" + std::to_string(job);
    ASSERT_EQ(pal({"train", "--resume", "--out", run, "--steps", steps}).status, 0);
    same_run("alone", run);
  }

  pid_t process_ = -1;
  int status_ = 0;
};

TEST_F(CorunWhileItRuns, ABudgetThatDropsIsHonouredWithinAStepAndItsBytesReturned) {
  const int64_t least = bytes("turns"), most = bytes("unshared");
  ASSERT_GT(most, least + 5'000'000);
  start({"endless.yaml", "endless.yaml", "--mode", "shared", "--budget",
         std::to_string(most + 1000), "--out", "run"});
  ASSERT_TRUE(step_on(5)) << log();
  const int64_t before = resident_bytes(process_);
  write_budget(std::to_string(least));
  ASSERT_TRUE(step_on(3)) << log();
  EXPECT_NE(log().find(" budget "), std::string::npos) << log();
  const int64_t after = resident_bytes(process_);
  EXPECT_LT(after, before - (most - least) / 2);

  // What cannot be read changes nothing, and is said once. More is used at once.
  write_budget("plenty");
  ASSERT_TRUE(step_on(3)) << log();
  const std::string said = log(), warning = "run/budget: plenty is not a size";
  const size_t first = said.find(warning);
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find(warning, first + 1), std::string::npos);
  write_budget(std::to_string(most + 1000));
  ASSERT_TRUE(step_on(4)) << log();
  EXPECT_GT(resident_bytes(process_), after + (most - least) / 2) << log();
  EXPECT_EQ(end(), 130) << log();
  same_as_alone(1);
  same_as_alone(2);
}

TEST_F(CorunWhileItRuns, ABudgetBelowAJobsNeedEndsThatJobAndTheOtherGoesOn) {
  const int64_t alone_bytes = bytes("unshared") / 2;
  start({"endless.yaml", "endless.yaml", "--set", "2:train.batch_size=16", "--budget", "1GB",
         "--out", "run", "--mode", "turns"});
  ASSERT_TRUE(step_on(3)) << log();
  write_budget(std::to_string(alone_bytes * 3 / 4));
  ASSERT_TRUE(soon([&] { return fs::exists(dir_ / "run/1/last.safetensors"); })) << log();
  const int64_t then = step_of(2);
  ASSERT_TRUE(soon([&] { return step_of(2) > then + 20; })) << log();
  EXPECT_EQ(end(), 3) << log();
  const std::string last = lines_of(log()).back();
  EXPECT_TRUE(last.starts_with("pal: job 1 (endless), run/1: needs ")) << last;
  EXPECT_NE(last.find(" are missing"), std::string::npos) << last;
  same_as_alone(1);
}

TEST_F(CorunWhileItRuns, AJobThatEndsLeavesItsThreadsAndMemoryToTheOther) {
  if (cpu_device(0).threads < 2) GTEST_SKIP() << "one processor";
  std::ofstream(dir_ / "many.yaml")
      << std::regex_replace(read_file(dir_ / "endless.yaml"), std::regex(", threads: 1"), "");
  start({"many.yaml", "many.yaml", "--set", "1:train.steps=5", "--set", "2:train.steps=60",
         "--budget", "1GB", "--out", "run", "--mode", "shared"});
  ASSERT_TRUE(soon([&] { return step_of(2) == 60 && process_ < 0; })) << log();
  EXPECT_NE(log().find("[2 many] threads "), std::string::npos) << log();
  alone("endless.yaml", "alone", {"--steps", "60"});
  same_run("alone", "run/2");
}

// Both ways are tried, with whatever threads each has, and one is kept: no bit depends on it.
TEST_F(Corun, AutoMeasuresBothWays) {
  const Words many{"--steps", "500", "--set", "device.threads=null"};
  const auto with = [&](Words words) {
    words.insert(words.end(), many.begin(), many.end());
    return words;
  };
  alone("image.yaml", "a", with({}));
  alone("image.yaml", "b", with({"--set", "train.seed=3"}));
  const RunResult r = corun(with({"image.yaml", "image.yaml", "--mode", "auto", "--out", "run",
                                  "--set", "2:train.seed=3", "--budget", "1GB"}));
  ASSERT_EQ(r.status, 0) << r.err;
  const size_t at = r.err.find(" measured: side by side ");
  ASSERT_NE(at, std::string::npos) << r.err;
  EXPECT_NE(r.err.find(" from now on", at), std::string::npos) << r.err;
  same_run("a", "run/1");
  same_run("b", "run/2");
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

// What the library says of itself as it is loaded: GCC's OpenMP alone says it in these words.
TEST_F(Corun, IdleThreadsSleepSoon) {
  passive_ = false;
  setenv("OMP_DISPLAY_ENV", "verbose", 1);
  const RunResult r = corun({"text.yaml", "text.yaml", "--dry-run"});
  unsetenv("OMP_DISPLAY_ENV");
  ASSERT_EQ(r.status, 0) << r.err;
  if (r.err.find("GOMP_SPINCOUNT") == std::string::npos) GTEST_SKIP() << "not GCC's OpenMP";
  EXPECT_NE(r.err.find("GOMP_SPINCOUNT = '10000'"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace pal
