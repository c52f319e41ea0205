// Runs of several processes, over MPI. Left out where this build has no MPI.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "tests/train/loop/whole_runs.h"

namespace pal {

inline const fs::path kPlugin = fs::path(PAL_BINARY).parent_path() / "libpal_mpi.so";

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
  // The processes of this test whose words contain `words`: ranks, or who has started them.
  std::vector<pid_t> processes(const std::string& words, bool ranks = true) const {
    std::vector<pid_t> out;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      std::error_code ignored;
      if (fs::read_symlink(entry.path() / "cwd", ignored) != fs::canonical(dir_)) continue;
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
  // What mpirun makes of these words, in this test's folder: "-n 2 pal train ...".
  RunResult mpirun(const std::string& words) const {
    const std::string command =
        "cd '" + dir_.string() + "' && OMP_WAIT_POLICY=passive PAL_PLUGINS='" +
        kPlugin.parent_path().string() + "' mpirun" +
        (geteuid() == 0 ? " --allow-run-as-root" : "") +
        " --oversubscribe --bind-to none --quiet " + words + " > stdout.txt 2> stderr.txt";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(dir_ / "stdout.txt"),
            read_file(dir_ / "stderr.txt")};
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

}  // namespace pal
