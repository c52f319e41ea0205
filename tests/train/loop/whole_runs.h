// Runs the program itself in a folder of its own: arguments in, exit code and output out.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/files.h"

namespace pal {

namespace fs = std::filesystem;

struct RunResult {
  int status = 0;  // exit code, or -signal
  std::string out, err;
};

class RunTest : public testing::Test {
 protected:
  RunTest() {
    std::ofstream(dir_ / "tiny.yaml")
        << "model: {type: nmt, hidden: 16, embedding: 12, attention_size: 8, encoder_layers: 1,\n"
           "  decoder_layers: 1, dropout: 0.2}\n"
           "data: {synthetic: true, source_vocab_size: 60, target_vocab_size: 50, max_length: 20}\n"
           "train: {batch_size: 16, steps: 40, lr: 0.01, clip_value: 1.0, save_every: 1,\n"
           "  valid_every: 1000, log_every: 1}\n"
           "device: {threads: 1}\n";
  }

  // Starts the program; `after_ms`, when not negative, kills it so many milliseconds later.
  RunResult pal(std::vector<std::string> args, int signal = 0, int after_ms = -1) {
    args.insert(args.begin(), PAL_BINARY);
    std::vector<char*> argv;
    for (auto& a : args) argv.push_back(a.data());
    argv.push_back(nullptr);
    const fs::path out = dir_ / "stdout.txt", err = dir_ / "stderr.txt";
    const pid_t child = fork();
    if (child == 0) {
      dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
      dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
      if (chdir(dir_.c_str()) != 0) _exit(99);
      // Threads that wait by spinning are most of such a small training, beside another program.
      if (passive_) setenv("OMP_WAIT_POLICY", "passive", 0);
      if (!passive_) unsetenv("OMP_WAIT_POLICY");
      setenv("XDG_CACHE_HOME", (dir_ / "cache").c_str(), 1);  // fronts of this test alone
      if (file_limit_ > 0) {
        const rlimit limit{rlim_t(file_limit_), rlim_t(file_limit_)};
        ::signal(SIGXFSZ, SIG_IGN);  // so that a write beyond it fails, as on a full disk
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(99);
      }
      execv(PAL_BINARY, argv.data());
      _exit(99);
    }
    if (after_ms >= 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(after_ms));
      kill(child, signal);
      if (second_signal_ > 0) kill(child, second_signal_);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), read_file(out),
            read_file(err)};
  }

  // The step rows, without what depends on the clock.
  std::vector<std::string> steps(const fs::path& run) {
    std::vector<std::string> rows;
    std::ifstream in(run / "metrics.jsonl");
    for (std::string line; std::getline(in, line);) {
      auto row = nlohmann::json::parse(line);
      if (row["event"] != "step") continue;
      for (const char* timed : {"samples_per_s", "tokens_per_s", "step_ms"}) row.erase(timed);
      row.erase("process_peak_bytes");  // depends on the machine
      row.erase("arena_bytes");         // grows when a bucket is first met, in whichever session
      if (row.contains("traffic")) row["traffic"].erase("search_us");
      rows.push_back(row.dump());
    }
    return rows;
  }

  const TemporaryFolder folder_;
  const fs::path dir_ = folder_.path();
  int64_t file_limit_ = 0;  // bytes that any file of the next program may have; 0: no limit
  int second_signal_ = 0;   // sent right behind the one that pal() is given
  bool passive_ = true;     // threads that wait sleep
};

}  // namespace pal
