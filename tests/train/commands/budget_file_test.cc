// The file by which a running pal corun is told of another budget.
#include "train/commands/budget_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/files.h"

namespace pal::test {
namespace {

class BudgetFiles : public testing::Test {
 protected:
  void write(const std::string& text) { std::ofstream(file_) << text; }

  TemporaryFolder dir_;
  const std::filesystem::path file_ = dir_.path() / "budget";
};

TEST_F(BudgetFiles, WhatWasThereBeforeDoesNotCount) {
  write("1MB\n");
  BudgetFile budget(file_);
  EXPECT_FALSE(budget.changed());
  write("2MB\n");
  EXPECT_EQ(budget.changed(), 2'000'000);
  EXPECT_FALSE(budget.changed());
  write("1MB\n");
  EXPECT_EQ(budget.changed(), 1'000'000);
}

TEST_F(BudgetFiles, WhatIsNoSizeIsWarnedAboutOnce) {
  BudgetFile budget(file_);
  EXPECT_FALSE(budget.changed()) << "there is none";
  const auto said = [&] {
    testing::internal::CaptureStderr();
    EXPECT_FALSE(budget.changed());
    return testing::internal::GetCapturedStderr();
  };
  write("much");
  EXPECT_NE(said().find("the budget stays as it was"), std::string::npos);
  EXPECT_EQ(said(), "");
  std::filesystem::remove(file_);
  EXPECT_EQ(said(), "");
  std::filesystem::create_directory(file_);
  EXPECT_NE(said().find("cannot be read"), std::string::npos);
  EXPECT_EQ(said(), "");
}

}  // namespace
}  // namespace pal::test
