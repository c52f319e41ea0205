// pal corun while it runs: the budget changes, a job ends, threads move, ways are measured.
#include <regex>

#include "core/device.h"
#include "tests/train/commands/corun_runs.h"

namespace pal {
namespace {

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

// What was measured within another budget says nothing of this one.
TEST_F(CorunWhileItRuns, ABudgetThatChangesIsANewTrial) {
  if (cpu_device(0).threads < 2) GTEST_SKIP() << "one processor";
  start({"image.yaml", "image.yaml", "--steps", "5000", "--set", "train.log_every=10", "--mode",
         "auto", "--budget", "1GB", "--out", "run"});
  const auto trials = [&] {
    const Words lines = lines_of(log());
    return std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
      return line.find("measured: side by side ") != std::string::npos;
    });
  };
  // When nodes are measured, which happens within so many steps, another trial begins.
  ASSERT_TRUE(soon([&] { return trials() > 0 && step_of(1) >= 200; })) << log();
  const auto before = trials();
  write_budget("900MB");
  EXPECT_TRUE(soon([&] { return trials() > before; })) << log();
  EXPECT_EQ(end(), 130) << log();
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

}  // namespace
}  // namespace pal
