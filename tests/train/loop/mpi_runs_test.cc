// Runs of several processes, over MPI: the bits of one, signals, ranks that die, hang or were
// started without MPI, how runs of several ranks begin, and launchers that hang. Left out where
// this build has no MPI.
#include "tests/train/loop/mpi_runs.h"

#include <dlfcn.h>

#include <random>

#include "tests/support/variable.h"
#include "train/run_files/safetensors.h"

namespace pal {
namespace {

TEST_F(MpiRuns, HaveTheBitsOfOneProcess) {
  ASSERT_EQ(pal(words("one", 1, {"--steps", "6"})).status, 0);
  for (const char* shard : {"none", "optimizer", "weights"}) {
    const std::string out = std::string("two-") + shard;
    const RunResult two =
        pal(words(out, 2, {"--steps", "6", "--set", std::string("train.shard=") + shard}));
    ASSERT_EQ(two.status, 0) << two.err;
    EXPECT_TRUE(weights("one") == weights(out)) << shard;
    EXPECT_EQ(steps(dir_ / "one").size(), steps(dir_ / out).size());
    // One process tells of the run, and one writes.
    size_t reports = 0;
    for (size_t at = 0; (at = two.err.find("report ", at)) != std::string::npos; ++at) ++reports;
    EXPECT_EQ(reports, 1u) << two.err;
  }
}

// Pairs of processes that stand for machines.
TEST_F(MpiRuns, HaveTheBitsOfOneProcessByLevels) {
  ASSERT_EQ(pal(words("one", 1, {"--steps", "3"})).status, 0);
  const Variable machines("PAL_RANKS_PER_NODE", "2");
  for (const char* shard : {"none", "optimizer", "weights"}) {
    const std::string out = std::string("four-") + shard;
    const RunResult four =
        pal(words(out, 4, {"--steps", "3", "--set", std::string("train.shard=") + shard}));
    ASSERT_EQ(four.status, 0) << four.err;
    EXPECT_TRUE(weights("one") == weights(out)) << shard;
  }
  const Variable wrong("PAL_RANKS_PER_NODE", "3");
  const RunResult refused = pal(words("refused", 4, {"--steps", "3"}));
  EXPECT_EQ(refused.status, 2) << refused.err;
  EXPECT_NE(refused.err.find("PAL_RANKS_PER_NODE is 3"), std::string::npos) << refused.err;
}

// Batch norm over both processes' images: from run to run, and whatever they divide, the same bits.
TEST_F(MpiRuns, SyncTheirNorms) {
  std::ofstream(dir_ / "images.yaml")
      << "model: {type: resnet, family: cifar, depth: 8, width: 4}\n"
         "data: {synthetic: true, classes: 4, image_size: 8, crop: random_resized}\n"
         "train: {batch_size: 4, lr: 0.02, valid_every: 2, log_every: 1, accumulate: 4}\n"
         "device: {threads: 1}\n";
  const auto run = [&](const std::string& out, const std::vector<std::string>& sets) {
    std::vector<std::string> all{"train",   "--config", "images.yaml", "--out", out,
                                 "--steps", "3",        "--ranks",     "2"};
    for (const std::string& set : sets) all.insert(all.end(), {"--set", set});
    const RunResult ran = pal(all);
    EXPECT_EQ(ran.status, 0) << ran.err;
  };
  run("local", {});
  run("synced", {"train.batch_norm=sync"});
  run("again", {"train.batch_norm=sync"});
  run("divided", {"train.batch_norm=sync", "train.shard=weights", "memory.recompute=echo"});
  EXPECT_TRUE(weights("synced") == weights("again"));
  EXPECT_TRUE(weights("synced") == weights("divided"));
  EXPECT_FALSE(weights("synced") == weights("local"));
}

TEST_F(MpiRuns, AreInterruptedTogetherAndGoOn) {
  ASSERT_EQ(pal(words("whole", 1)).status, 0);
  for (const int signal : {SIGTERM, SIGINT}) {
    const std::string out = "stopped" + std::to_string(signal);
    std::thread stop([&] {
      if (running(out, 4).empty()) ADD_FAILURE() << "the run did not begin";
      for (const pid_t pid : processes(" " + out + " ", false)) kill(pid, signal);
    });
    const RunResult stopped = pal(words(out, 4));
    stop.join();
    EXPECT_EQ(stopped.status, 130) << stopped.err;
    EXPECT_NE(stopped.err.find("interrupted at step"), std::string::npos) << stopped.err;
    EXPECT_EQ(pal(words(out, 2)).status, 0);
    EXPECT_TRUE(weights("whole") == weights(out));
  }
}

TEST_F(MpiRuns, ThatLoseARankEndAndGoOn) {
  ASSERT_EQ(pal(words("whole", 1)).status, 0);
  const char* asked = std::getenv("PAL_TEST_KILLS");
  const int rounds = asked ? std::atoi(asked) : 2;
  std::mt19937 random(7);
  int hits = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::string out = "lost" + std::to_string(round);
    std::chrono::steady_clock::time_point killed;
    std::thread killer([&] {
      const std::vector<pid_t> pids = running(out, 2);
      if (pids.empty()) return ADD_FAILURE() << "the run did not begin";
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 500));
      kill(pids[random() % pids.size()], SIGKILL);
      killed = std::chrono::steady_clock::now();
    });
    const RunResult lost = pal(words(out, 2, {"--set", "train.shard=weights"}));
    killer.join();
    const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - killed);
    if (lost.status == 0) continue;  // it was over already
    ++hits;
    EXPECT_LT(seconds.count(), 10) << lost.err;
    const SafetensorsFile file = SafetensorsFile::open((dir_ / out / "last.safetensors").string());
    for (const TensorView& tensor : file.tensors()) file.check(tensor);
    const RunResult resumed = pal(words(out, 4, {"--set", "train.shard=optimizer"}));
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_TRUE(weights("whole") == weights(out)) << "round " << round;
  }
  EXPECT_GT(hits, 0) << "every kill came too late";
}

// The one that hangs is named, not those that wait for it too.
TEST_F(MpiRuns, NameARankThatHangs) {
  std::string rank;
  std::chrono::steady_clock::time_point stopped;
  std::thread stopper([&] {
    const std::vector<pid_t> pids = running("hung", 4);
    if (pids.empty()) return ADD_FAILURE() << "the run did not begin";
    std::ifstream in("/proc/" + std::to_string(pids[1]) + "/environ");
    const std::string all((std::istreambuf_iterator<char>(in)), {});
    const std::string name = "OMPI_COMM_WORLD_RANK=";
    const size_t at = all.find(name);
    if (at != std::string::npos) rank = std::string(all.c_str() + at + name.size());
    kill(pids[1], SIGSTOP);
    stopped = std::chrono::steady_clock::now();
  });
  const RunResult hung = pal(words("hung", 4, {"--set", "train.rank_timeout=10"}));
  const auto end = std::chrono::steady_clock::now();
  stopper.join();
  for (const pid_t pid : processes(" hung ")) kill(pid, SIGKILL);
  EXPECT_NE(hung.status, 0);
  EXPECT_NE(hung.err.find("rank " + rank + " did not answer for"), std::string::npos)
      << "rank " << rank << " was stopped\n"
      << hung.err;
  EXPECT_NE(hung.err.find(" at step "), std::string::npos) << hung.err;
  EXPECT_NE(hung.err.find("raise train.rank_timeout"), std::string::npos) << hung.err;
  EXPECT_LT(std::chrono::duration<double>(end - stopped).count(), 20) << hung.err;
}

TEST_F(MpiRuns, SayWhatTheyCannotDo) {
  const RunResult divided = pal(words("no", 3));
  EXPECT_EQ(divided.status, 2);
  EXPECT_NE(divided.err.find("start 1, 2, 4 ranks"), std::string::npos) << divided.err;
  EXPECT_FALSE(fs::exists(dir_ / "no"));
  const RunResult lossy =
      pal(words("no", 2, {"--set", "memory.budget=1GB", "--set", "memory.allow=[lossy]"}));
  EXPECT_EQ(lossy.status, 2);
  EXPECT_NE(lossy.err.find("does not combine with several ranks"), std::string::npos) << lossy.err;
  const RunResult many = pal({"train", "--config", "tiny.yaml", "--ranks", "0"});
  EXPECT_EQ(many.status, 2);
  EXPECT_NE(many.err.find("--ranks"), std::string::npos) << many.err;
}

// A run of a version that knew no ranks goes on, with one and with several.
TEST_F(MpiRuns, GoOnFromARunThatSaysNothingOfRanks) {
  for (const int ranks : {1, 2}) {
    const std::string out = "old" + std::to_string(ranks);
    const std::vector<std::string> begin{"train", "--config",           "tiny.yaml", "--out", out,
                                         "--set", "train.accumulate=2", "--steps",   "4"};
    ASSERT_EQ(pal(begin).status, 0);
    std::ifstream in(dir_ / out / "config.yaml");
    std::string kept;
    for (std::string line; std::getline(in, line);) {
      bool of_ranks = false;
      for (const char* key :
           {"reduction:", "shard:", "bucket:", "exchange:", "batch_norm:", "rank_timeout:"}) {
        of_ranks |= line.find(key) != std::string::npos;
      }
      if (!of_ranks) kept += line + "\n";
    }
    std::ofstream(dir_ / out / "config.yaml") << kept;
    std::vector<std::string> on{"train", "--config", "tiny.yaml", "--out",
                                out,     "--resume", "--steps",   "6"};
    if (ranks > 1) on.insert(on.end(), {"--ranks", std::to_string(ranks)});
    const RunResult resumed = pal(on);
    EXPECT_EQ(resumed.status, 0) << resumed.err;
  }
}

// srun that was not asked to tell MPI of its tasks: each would be a run of its own.
TEST(Launched, BySlurmWithoutPmixIsRefused) {
  const TemporaryFolder folder;
  const std::string begin = "cd '" + folder.path().string() + "' && SLURM_NTASKS=4 SLURM_PROCID=",
                    run = " " PAL_BINARY " train --config nmt_small --dry-run --out run 2> err.txt";
  const int status =
      std::system((begin + "3 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4" + run).c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2);
  const std::string said = read_file(folder.path() / "err.txt");
  EXPECT_NE(said.find("[rank 3] pal: ranks: SLURM_STEP_NUM_TASKS"), std::string::npos) << said;
  EXPECT_NE(said.find("srun --mpi=pmix"), std::string::npos) << said;
  // A batch script's own process is one.
  const int batch = std::system((begin + "0" + run).c_str());
  EXPECT_EQ(WEXITSTATUS(batch), 0) << read_file(folder.path() / "err.txt");
}

// A launcher of this name, found before MPI's: what it does before and after the one rank that it
// starts. What `exec` makes of it has no child.
class Launchers : public RunTest {
 protected:
  RunResult ranks(const std::string& before, const std::string& after) {
    const fs::path folder = dir_ / "bin";
    fs::create_directories(folder);
    std::ofstream(folder / "mpirun") << "#!/bin/sh\n" << before << "\n" << after << "\n";
    fs::permissions(folder / "mpirun", fs::perms::owner_all);
    const Variable path("PATH", folder.string() + ":" + std::getenv("PATH"));
    begun_ = std::chrono::steady_clock::now();
    return pal({"train", "--config", "tiny.yaml", "--ranks", "2"});
  }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  }

 private:
  std::chrono::steady_clock::time_point begun_;
};

TEST_F(Launchers, ThatOutliveTheirRanksAreEnded) {
  // One that is as deaf as a deadlock.
  const RunResult hung = ranks("sleep 0.3", "trap '' TERM USR1; exec sleep 60");
  EXPECT_EQ(hung.status, 1) << hung.err;
  EXPECT_GT(seconds(), 4);
  EXPECT_LT(seconds(), 15);
  EXPECT_NE(hung.err.find("mpirun has not ended, though its ranks have"), std::string::npos)
      << hung.err;
}

// Ranks that ended and that nobody has waited for are over, too.
TEST_F(Launchers, ThatDoNotWaitForTheirRanksAreEnded) {
  const RunResult hung = ranks("sleep 0.3 &", "exec sleep 60");
  EXPECT_EQ(hung.status, 1) << hung.err;
  EXPECT_LT(seconds(), 15);
}

TEST_F(Launchers, EndInTheirOwnTime) {
  const RunResult slow = ranks("sleep 0.3", "exec sh -c 'sleep 6; exit 7'");
  EXPECT_EQ(slow.status, 7) << slow.err;  // ranks run as long as this sleeps
  const RunResult none = ranks("", "exec sleep 6");
  EXPECT_EQ(none.status, 0) << none.err;  // none have begun yet
  EXPECT_GT(seconds(), 5.5);
}

// Started by mpirun where the plug-in is not: not so many runs in one folder.
TEST(Launched, WithoutThePlugInIsRefused) {
  const TemporaryFolder folder;
  fs::copy_file(PAL_BINARY, folder.path() / "pal");
  const std::string command = "cd '" + folder.path().string() +
                              "' && OMPI_COMM_WORLD_SIZE=4 ./pal train --config nmt_small "
                              "--out run 2> err.txt";
  const int status = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2);
  const std::string said = read_file(folder.path() / "err.txt");
  EXPECT_NE(said.find("OMPI_COMM_WORLD_SIZE says that this is one of 4 processes"),
            std::string::npos)
      << said;
  EXPECT_FALSE(fs::exists(folder.path() / "run"));
}

// Any library of that name will do for one of another version.
TEST(Launched, WithAnotherPlugInIsRefused) {
  const TemporaryFolder folder;
  Dl_info info{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&dlopen), &info), 0);
  fs::copy_file(fs::canonical(info.dli_fname), folder.path() / "libpal_mpi.so");
  const std::string command = "cd '" + folder.path().string() +
                              "' && PAL_PLUGINS=. OMPI_COMM_WORLD_SIZE=4 " PAL_BINARY
                              " train --config nmt_small --out run 2> err.txt";
  const int status = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2);
  const std::string said = read_file(folder.path() / "err.txt");
  EXPECT_NE(said.find("libpal_mpi.so: is of another version of pal; build it anew"),
            std::string::npos)
      << said;
}

// The name by which pal calls it changes with the header that both are compiled with: what was
// built by another, under the name of old for one, is not found.
TEST(Launched, ThePlugInsNameHoldsItsVersion) {
  if (!fs::exists(kPlugin)) GTEST_SKIP() << "this build has no MPI (" << kPlugin << ")";
  const std::string bytes = read_file(kPlugin);
  EXPECT_EQ(bytes.find(std::string("pal_open_group\0", 15)), std::string::npos);
  const size_t at = bytes.find("pal_open_group_");
  ASSERT_NE(at, std::string::npos);
  EXPECT_NE(read_file(PAL_BINARY).find(bytes.c_str() + at), std::string::npos);
}

// Nor does a launcher start several of what has no ranks.
TEST(Launched, OnlyTrainHasRanks) {
  for (const auto& [words, said] :
       {std::pair{"corun resnet_small zoo_small --budget 1GB",
                  "only train and bench --link have ranks"},
        std::pair{"plan --config nmt_small", "only train and bench --link have ranks"},
        std::pair{"train --config nmt_small --ranks 2", "leave it to the launcher"}}) {
    const TemporaryFolder folder;
    const std::string err = (folder.path() / "err.txt").string();
    const std::string command = "cd '" + folder.path().string() +
                                "' && OMPI_COMM_WORLD_SIZE=4 " PAL_BINARY " " + words + " 2> " +
                                err;
    EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 2) << words;
    EXPECT_NE(read_file(err).find(said), std::string::npos) << read_file(err);
  }
}

}  // namespace
}  // namespace pal
