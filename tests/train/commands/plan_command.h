// pal plan within the test's own process: words in, what it prints out.
#pragma once
#include <gtest/gtest.h>

#include <any>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "train/commands/cli.h"
#include "train/commands/commands.h"

namespace pal::test {

class PlanRun : public testing::Test {
 protected:
  // Standard output; the exit code is in code_, the error, if it throws, in error_.
  std::string run(std::vector<std::string> words) {
    words.insert(words.begin(), "plan");
    code_ = -1, error_.clear();
    testing::internal::CaptureStdout();
    try {
      code_ = run_plan(std::any_cast<PlanArgs>(parse_command_line("pal", words).args));
    } catch (const Error& error) {
      code_ = error.exit_code, error_ = error.what();
    }
    return testing::internal::GetCapturedStdout();
  }
  // Of --json; null where there is none, which is a failure.
  nlohmann::json run_json(std::vector<std::string> words) {
    words.push_back("--json");
    const std::string out = run(std::move(words));
    EXPECT_FALSE(out.empty()) << error_;
    return out.empty() ? nlohmann::json() : nlohmann::json::parse(out);
  }

  int code_ = -1;
  std::string error_;
};

}  // namespace pal::test
