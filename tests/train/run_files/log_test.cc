// Lines of several runs in one process: each names its run, and none is torn.
#include "train/run_files/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <thread>
#include <vector>

namespace pal {
namespace {

TEST(Log, APrefixIsItsThreadsAndEndsWithItsScope) {
  testing::internal::CaptureStderr();
  {
    const LogPrefix prefix("[1 one]");
    log_info("hello");
    log_warn("careful");
    log_error("no");
    std::thread([] { log_info("mine"); }).join();
  }
  log_info("again");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "[1 one] hello\n[1 one] warning: careful\n[1 one] pal: no\nmine\nagain\n");
}

TEST(Log, LinesOfThreadsAreWhole) {
  const std::string words(200, 'x');
  testing::internal::CaptureStderr();
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        const LogPrefix prefix("[" + std::to_string(t) + "]");
        for (int i = 0; i < 250; ++i) log_info(words);
      });
    }
  }
  std::istringstream text(testing::internal::GetCapturedStderr());
  std::vector<int> lines(4);
  for (std::string line; std::getline(text, line);) {
    ASSERT_EQ(line.size(), words.size() + 4) << line;
    EXPECT_EQ(line.substr(3), " " + words);
    ++lines.at(size_t(line[1] - '0'));
  }
  EXPECT_EQ(lines, std::vector<int>(4, 250));
}

TEST(Progress, SeveralRunsDoNotRewriteOneLine) {
  testing::internal::CaptureStderr();
  {
    const LogPrefix prefix("[2 two]");
    Progress progress(true);
    progress.update({.step = 1}, false);
    progress.update({.step = 2}, true);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "[2 two] step 2  epoch 0.00  loss 0.0000\n");
}

}  // namespace
}  // namespace pal
