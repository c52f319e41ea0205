// pal corun: jobs side by side have the bits of each alone, also killed and resumed; a job that
// fails leaves the others alone.
#include <set>

#include "core/device.h"
#include "tests/train/commands/corun_runs.h"
#include "train/commands/job.h"
#include "train/config/config.h"
#include "train/config/profile.h"
#include "train/images/image_task.h"
#include "train/loop/run_options.h"
#include "train/loop/trainer.h"
#include "train/tasks/make_task.h"

namespace pal {
namespace {

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

  // Every line but those about the memory of all names its job; the last ones say how each ended.
  const Words lines = lines_of(r.err);
  ASSERT_GT(lines.size(), 20u);
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const std::string& line) {
                            return !line.starts_with("[1 text] ") &&
                                   !line.starts_with("[2 image] ");
                          }),
            2)
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
    for (const char* name : {"auto", "shared", "turns", "minutes", "zico"}) {
      fs::remove_all(dir_ / "both");
      const bool zico = name == std::string("zico");
      const std::string mode = zico ? "shared" : name;
      const RunResult r =
          corun({"image.yaml", "image.yaml", "--set", "2:train.seed=3", "--out", "both", "--mode",
                 mode, "--budget", budget, "--json", "--scheduler", zico ? "zico" : "planned"});
      if (r.status == 3 && mode == "shared") continue;
      ASSERT_EQ(r.status, 0) << mode << " " << budget << "\n" << r.err;
      same_run("a", "both/1");
      same_run("b", "both/2");
      const nlohmann::json memory = nlohmann::json::parse(r.out)["memory"];
      EXPECT_LE(memory["bytes"].get<int64_t>(), std::stoll(budget));
      EXPECT_TRUE(zico || memory["predicted"]["total"] >= 1) << memory;
      ways.insert(memory["way"]);
      EXPECT_EQ(zico, memory["way"] == "zico");
      EXPECT_EQ(zico, r.err.find("; its steps were begun ") != std::string::npos) << r.err;
    }
  }
  EXPECT_TRUE(ways.contains("circle"));
  EXPECT_TRUE(ways.contains("turns"));
  EXPECT_TRUE(ways.contains("zico"));

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
  EXPECT_EQ(workers_of(args.config.images(), 5), 5);
  const auto copies = run_options(args.config.memory).host_budget;
  ASSERT_TRUE(copies);
  Job job(args);
  job.divide_host(4, 1);
  EXPECT_EQ(*job.config().images().workers, 1);
  ASSERT_TRUE(job.config().memory.host_budget->has_value());
  const double part = double((*job.config().memory.host_budget)->bytes) / double(*copies);
  EXPECT_NEAR(part, 0.25, 0.05);  // other programs come and go meanwhile
  EXPECT_EQ(*job.args().config.images().workers, std::nullopt);
  EXPECT_FALSE(job.args().config.memory.host_budget->has_value());

  args.config = load_config(dir_ / "image.yaml", {{"data.workers", "3", "--set"},
                                                  {"memory.swap", "vdnn", "--set"},
                                                  {"memory.host_budget", "1GB", "--set"}});
  Job told(args);
  told.divide_host(4, 1);
  EXPECT_EQ(*told.config().images().workers, 3);
  EXPECT_EQ((*told.config().memory.host_budget)->bytes, 1'000'000'000);

  args.config = load_config(dir_ / "text.yaml", {});
  Job text(args);  // it reads no images and makes no copies
  text.divide_host(2, 1);
  EXPECT_FALSE(text.config().memory.host_budget->has_value());
}

// A run that does not count and four that do, between the first call and the one that has the
// times; where a call is the last before, there are none.
TEST_F(Corun, AJobsNodesAreTimedOverAFewSteps) {
  for (const int last : {3, 99}) {
    TrainArgs args;
    args.config = load_config(dir_ / "image.yaml", {{"train.steps", "8", "test"}});
    args.name = "image", args.out = dir_ / ("timed" + std::to_string(last));
    Job job(args);
    job.load();
    job.prepare();
    job.begin_folder();
    int calls = 0, call_with_times = 0;
    std::vector<int64_t> times;
    const std::atomic<bool> stop{false};
    job.run(stop, [&] {
      if (++calls > last || call_with_times > 0) return true;
      if (const auto measured = job.measured_times(calls == last)) {
        call_with_times = calls, times = *measured;
      }
      return true;
    });
    EXPECT_GE(calls, 8);
    EXPECT_EQ(call_with_times, last == 3 ? 0 : 6);
    const size_t nodes = size_t(job.largest_step(default_profile()).moments() / 2);
    EXPECT_EQ(times.size(), last == 3 ? 0 : nodes);
    EXPECT_TRUE(std::ranges::all_of(times, [](int64_t ns) { return ns >= 0; }));
  }
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
      corun({"image.yaml", "text.yaml", "--mode", "minutes", "--budget", "300kB"});
  EXPECT_EQ(small.status, 3);
  EXPECT_NE(small.err.find("in mode minutes ("), std::string::npos) << small.err;
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
