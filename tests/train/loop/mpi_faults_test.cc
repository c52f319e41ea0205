// Runs of several processes that begin with different things, lose a rank before there is anything
// to go on from, are stopped at an awkward moment, or meet a full disk.
#include <functional>
#include <map>
#include <random>

#include "tests/support/syscall_faults.h"
#include "tests/train/loop/mpi_runs.h"
#include "train/run_files/safetensors.h"

namespace pal {
namespace {

using test::Fault;

class MpiFaults : public MpiRuns {
 protected:
  // Two ranks with the same words, each in a folder and with a program of its own.
  RunResult two(const std::string& words, const std::string& first = PAL_BINARY,
                const std::string& second = PAL_BINARY) const {
    const std::string config = " train --config '" + (dir_ / "tiny.yaml").string() +
                               "' --set train.accumulate=2 --steps 4 " + words;
    return mpirun("-n 1 --wdir '" + (dir_ / "a").string() + "' '" + first + "'" + config +
                  " : -n 1 --wdir '" + (dir_ / "b").string() + "' '" + second + "'" + config);
  }
  void make_folders() const {
    for (const char* each : {"a", "b"}) fs::create_directories(dir_ / each);
  }
  void check_whole(const std::string& out) const {
    const SafetensorsFile file = SafetensorsFile::open((dir_ / out / "last.safetensors").string());
    for (const TensorView& tensor : file.tensors()) file.check(tensor);
  }
};

// One has a program that was linked anew.
TEST_F(MpiFaults, DifferentBuildsAreNamed) {
  make_folders();
  std::string program = read_file(PAL_BINARY);
  // A note of 20 bytes with the linker's number (ELF: sizes of name and content, type, name).
  const std::string note("\4\0\0\0\x14\0\0\0\3\0\0\0GNU\0", 16);
  const size_t at = program.find(note);
  ASSERT_NE(at, std::string::npos) << "the linker wrote no build id";
  program[at + note.size()] ^= 1;
  const fs::path other = dir_ / "pal";
  std::ofstream(other, std::ios::binary) << program;
  fs::permissions(other, fs::perms::owner_all);
  const RunResult differ = two("--out run", PAL_BINARY, other.string());
  EXPECT_EQ(differ.status, 2) << differ.err;
  EXPECT_NE(differ.err.find("rank 0 and rank 1 differ in the build of pal"), std::string::npos)
      << differ.err;
  EXPECT_FALSE(fs::exists(dir_ / "a/run"));
}

// Weights of one name that are others on another machine.
TEST_F(MpiFaults, DifferentInitialWeightsAreNamed) {
  make_folders();
  for (const char* each : {"a", "b"}) {
    const std::string out = std::string(each) + "/from";
    const std::string lr = each[0] == 'a' ? "train.lr=0.01" : "train.lr=0.02";
    ASSERT_EQ(
        pal({"train", "--config", "tiny.yaml", "--out", out, "--steps", "1", "--set", lr}).status,
        0);
  }
  const RunResult differ =
      two("--out '" + (dir_ / "run").string() + "' --set train.init_from=from");
  EXPECT_EQ(differ.status, 2) << differ.err;
  EXPECT_NE(differ.err.find("rank 0 and rank 1 differ in the weights in from/"), std::string::npos)
      << differ.err;
  EXPECT_FALSE(fs::exists(dir_ / "run"));
  fs::remove_all(dir_ / "b/from");
  fs::copy(dir_ / "a/from", dir_ / "b/from");
  const RunResult same = two("--out '" + (dir_ / "run").string() + "' --set train.init_from=from");
  EXPECT_EQ(same.status, 0) << same.err;
}

// The folder of the run is another one there: rank 0 says what lies in it.
TEST_F(MpiFaults, AFolderThatOneRankDoesNotSeeIsNamed) {
  make_folders();
  ASSERT_EQ(pal({"train", "--config", "tiny.yaml", "--out", "a/run", "--steps", "2", "--set",
                 "train.accumulate=2"})
                .status,
            0);
  fs::create_directories(dir_ / "b/run");
  fs::copy_file(dir_ / "a/run/config.yaml", dir_ / "b/run/config.yaml");
  for (const char* name : {"vocab.source.txt", "vocab.target.txt", "buckets.txt", "ladder.txt"}) {
    if (fs::exists(dir_ / "a/run" / name))
      fs::copy_file(dir_ / "a/run" / name, dir_ / "b/run" / name);
  }
  const RunResult lost = two("--out run --resume");
  EXPECT_EQ(lost.status, 2) << lost.err;
  EXPECT_NE(lost.err.find("[rank 1] pal: "), std::string::npos) << lost.err;
  EXPECT_NE(lost.err.find("run/last.safetensors: no such file"), std::string::npos) << lost.err;
}

// While they start, plan, or train what was never saved.
TEST_F(MpiFaults, ALossBeforeTheFirstCheckpointEndsAll) {
  const std::vector<std::string> never{"--set", "train.save_every=1000"};
  ASSERT_EQ(pal(words("whole", 1, never)).status, 0);
  std::mt19937 random(3);
  int hits = 0;
  for (const int most : {1, 100, 400, 1500}) {
    const std::string out = "lost" + std::to_string(most);
    std::chrono::steady_clock::time_point killed;
    std::thread killer([&] {
      std::vector<pid_t> pids;
      for (int i = 0; i < 6000 && pids.size() < 2; ++i) {
        pids = processes(" " + out + " ");
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (pids.size() < 2) return ADD_FAILURE() << "the run did not begin";
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % unsigned(most)));
      kill(pids[random() % pids.size()], SIGKILL);
      killed = std::chrono::steady_clock::now();
    });
    const RunResult lost = pal(words(out, 2, never));
    const auto end = std::chrono::steady_clock::now();
    killer.join();
    if (lost.status == 0) continue;  // it was over already
    ++hits;
    EXPECT_LT(std::chrono::duration<double>(end - killed).count(), 10) << lost.err;
    EXPECT_TRUE(processes(" " + out + " ").empty());
    const RunResult again = pal(words(out, 2, never));
    ASSERT_EQ(again.status, 0) << again.err;
    EXPECT_TRUE(weights("whole") == weights(out)) << out;
  }
  EXPECT_GT(hits, 1) << "the kills came too late";
}

// A validation that is under way is given up, and done when the run goes on.
TEST_F(MpiFaults, AreInterruptedInTheMiddleOfAValidation) {
  const std::vector<std::string> often{"--set", "train.valid_every=1", "--steps", "12"};
  ASSERT_EQ(pal(words("whole", 1, often)).status, 0);
  int hits = 0;
  for (const char* shard : {"none", "weights"}) {
    for (const int wait : {0, 200}) {
      const std::string out = shard + std::to_string(wait);
      std::vector<std::string> more = often;
      more.insert(more.end(), {"--set", std::string("train.shard=") + shard});
      std::thread stop([&] {
        if (running(out, 2).empty()) return ADD_FAILURE() << "the run did not begin";
        std::this_thread::sleep_for(std::chrono::milliseconds(wait));
        for (const pid_t pid : processes(" " + out + " ", false)) kill(pid, SIGTERM);
      });
      const RunResult stopped = pal(words(out, 2, more));
      stop.join();
      if (stopped.status == 0) continue;
      ASSERT_EQ(stopped.status, 130) << stopped.err;
      const SafetensorsFile file =
          SafetensorsFile::open((dir_ / out / "last.safetensors").string());
      hits += file.metadata().at("trainer").find("valid_due") != std::string::npos;
      const RunResult resumed = pal(words(out, 2, more));
      ASSERT_EQ(resumed.status, 0) << resumed.err;
      for (const char* name : {"last.safetensors", "best.safetensors"}) {
        EXPECT_TRUE(read_file(dir_ / "whole" / name) == read_file(dir_ / out / name))
            << out << " " << name;
      }
    }
  }
  EXPECT_GT(hits, 0) << "no signal came during a validation";
}

// A rank that cannot write ends all of them, and says so.
TEST_F(MpiFaults, EndTogetherWhereRankZeroCannotWrite) {
  const fs::path in_the_way = dir_ / "full/last.safetensors.tmp";
  fs::create_directories(in_the_way);
  const RunResult full = pal(words("full", 2, {"--set", "train.shard=weights"}));
  EXPECT_EQ(full.status, 1) << full.err;
  EXPECT_NE(full.err.find("last.safetensors"), std::string::npos) << full.err;
  EXPECT_TRUE(processes(" full ").empty());
  fs::remove_all(in_the_way);
  ASSERT_EQ(pal(words("whole", 1)).status, 0);
  ASSERT_EQ(pal(words("full", 4)).status, 0);
  EXPECT_TRUE(weights("whole") == weights("full"));
}

// The disk is full when half of a checkpoint is written, and others have sent their pieces.
TEST_F(MpiFaults, AFullDiskLeavesTheCheckpointBefore) {
  if (!test::can_trace_faults()) GTEST_SKIP() << "this machine allows no tracing of programs";
  const std::vector<std::string> few{"--steps", "4"};
  ASSERT_EQ(pal(words("whole", 1, few)).status, 0);
  for (const char* shard : {"optimizer", "weights"}) {
    const fs::path run = dir_ / shard;
    const auto traced = [&](Fault fault, int64_t call) {
      std::vector<std::string> more = few;
      more.insert(more.end(), {"--set", std::string("train.shard=") + shard});
      std::vector<std::string> all = words(shard, 2, more);
      all.insert(all.begin(), PAL_BINARY);
      return test::run_with_fault(all, dir_, dir_ / "stdout.txt", dir_ / "stderr.txt",
                                  {fs::canonical(dir_) / shard, fault, call});
    };
    const test::TracedRun whole = traced(Fault::none, 0);
    ASSERT_EQ(whole.status, 0) << read_file(dir_ / "stderr.txt");
    std::vector<int64_t> writes;  // of the second checkpoint
    int checkpoints = 0;
    for (size_t i = 0; i < whole.calls.size(); ++i) {
      const std::string& call = whole.calls[i];
      if (call == "write last.safetensors.tmp" && checkpoints == 1) writes.push_back(int64_t(i));
      checkpoints += call == "rename last.safetensors";
    }
    ASSERT_GT(writes.size(), 4u) << "a checkpoint is written at once";
    fs::remove_all(run);
    const auto begin = std::chrono::steady_clock::now();
    const test::TracedRun full = traced(Fault::full, writes[writes.size() / 2]);
    const std::string said = read_file(dir_ / "stderr.txt");
    EXPECT_EQ(full.status, 1) << said;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60)) << said;
    EXPECT_NE(said.find("last.safetensors"), std::string::npos) << said;
    EXPECT_NE(said.find("No space left"), std::string::npos) << said;
    EXPECT_TRUE(processes(std::string(" ") + shard + " ").empty());
    ASSERT_NO_THROW(check_whole(shard));
    ASSERT_EQ(pal(words(shard, 2, few)).status, 0);
    EXPECT_TRUE(weights("whole") == weights(shard)) << shard;
  }
}

// Whatever the run of several ranks is given, each rank is.
TEST_F(MpiFaults, EachRankIsGivenAllFlags) {
  const RunResult dry =
      pal({"train", "--config", "tiny.yaml", "--out", "dry", "--ranks", "2", "--dry-run", "--json",
           "--set=train.seed=7", "--set", "train.accumulate=4", "--steps=3"});
  EXPECT_EQ(dry.status, 0) << dry.err;
  EXPECT_TRUE(nlohmann::json::parse(dry.out).contains("program")) << dry.out;
  EXPECT_FALSE(fs::exists(dir_ / "dry"));
  const RunResult ran =
      pal({"train", "--config", "tiny.yaml", "--out", "ran", "--ranks", "2", "--set=train.seed=7",
           "--set", "train.accumulate=4", "--steps=3", "--device=cpu", "--json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(nlohmann::json::parse(ran.out)["steps"], 3);
  const std::string config = read_file(dir_ / "ran/config.yaml");
  EXPECT_NE(config.find("seed: 7"), std::string::npos) << config;
  EXPECT_NE(config.find("accumulate: 4"), std::string::npos) << config;
}

}  // namespace
}  // namespace pal
