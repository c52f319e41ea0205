// Runs of several processes, over MPI: the bits of one, signals, ranks that die, hang or were
// started without MPI, and how runs of several ranks begin. Left out where this build has no MPI.
#include <algorithm>
#include <random>

#include "tests/train/loop/whole_runs.h"
#include "train/run_files/safetensors.h"

namespace pal {
namespace {

const fs::path kPlugin = fs::path(PAL_BINARY).parent_path() / "libpal_mpi.so";

// The processes of this test's program whose words contain `words`: ranks, or who has started them.
std::vector<pid_t> processes(const std::string& words, bool ranks = true) {
  std::vector<pid_t> out;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream in(entry.path() / "cmdline");
    std::string line((std::istreambuf_iterator<char>(in)), {});
    std::replace(line.begin(), line.end(), '\0', ' ');
    if (line.starts_with(PAL_BINARY) && line.find(words) != std::string::npos &&
        (line.find("--ranks") == std::string::npos) == ranks) {
      out.push_back(pid_t(std::stol(name)));
    }
  }
  return out;
}

class MpiRuns : public RunTest {
 protected:
  void SetUp() override {
    if (!fs::exists(kPlugin)) GTEST_SKIP() << "this build has no MPI (" << kPlugin << ")";
  }
  std::vector<std::string> words(const std::string& out, int ranks,
                                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{"train",
                                 "--config",
                                 "tiny.yaml",
                                 "--out",
                                 out,
                                 "--set",
                                 "train.accumulate=4",
                                 "--set",
                                 "train.reduction=ordered"};
    if (ranks > 1) all.insert(all.end(), {"--ranks", std::to_string(ranks)});
    if (fs::exists(dir_ / out / "config.yaml")) all.emplace_back("--resume");
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string weights(const std::string& out) const {
    return read_file(dir_ / out / "last.safetensors");
  }
  // Once the run of several ranks has saved: its processes.
  std::vector<pid_t> running(const std::string& out, size_t ranks) const {
    for (int i = 0; i < 600; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (!fs::exists(dir_ / out / "last.safetensors")) continue;
      std::vector<pid_t> pids = processes(" " + out + " ");
      if (pids.size() == ranks) return pids;
    }
    return {};
  }
};

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
  std::thread stopper([&] {
    const std::vector<pid_t> pids = running("hung", 4);
    if (pids.empty()) return ADD_FAILURE() << "the run did not begin";
    std::ifstream in("/proc/" + std::to_string(pids[1]) + "/environ");
    const std::string all((std::istreambuf_iterator<char>(in)), {});
    const std::string name = "OMPI_COMM_WORLD_RANK=";
    const size_t at = all.find(name);
    if (at != std::string::npos) rank = std::string(all.c_str() + at + name.size());
    kill(pids[1], SIGSTOP);
  });
  const auto begin = std::chrono::steady_clock::now();
  const RunResult hung = pal(words("hung", 4, {"--set", "train.rank_timeout=5"}));
  stopper.join();
  for (const pid_t pid : processes(" hung ")) kill(pid, SIGKILL);
  EXPECT_NE(hung.status, 0);
  EXPECT_NE(hung.err.find("rank " + rank + " did not answer for"), std::string::npos)
      << "rank " << rank << " was stopped\n"
      << hung.err;
  EXPECT_NE(hung.err.find(" at step "), std::string::npos) << hung.err;
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 60);
}

// A rank that cannot write ends all of them, and says so.
TEST_F(MpiRuns, EndTogetherWhereRankZeroCannotWrite) {
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
