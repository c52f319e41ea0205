// Choices in files: found again, the first one holds, and what is torn is no choice.
#include "train/run_files/algorithm_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/files.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

class AlgorithmFiles : public testing::Test {
 protected:
  void write(const fs::path& file, const std::string& text) {
    std::ofstream(file, std::ios::binary) << text;
  }
  TemporaryFolder folder_;
  const fs::path run_ = folder_.path() / "run.txt", machine_ = folder_.path() / "machine.txt";
};

TEST_F(AlgorithmFiles, AreFoundAgain) {
  AlgorithmFile first(run_, machine_);
  EXPECT_FALSE(first.find("a 1 x 2 product"));
  EXPECT_EQ(first.keep("a 1 x 2 product", "0a", true), "0a");
  EXPECT_EQ(first.keep("another", "0b", true), "0b");
  for (const auto& [run, machine] :
       std::vector<std::pair<fs::path, fs::path>>{{run_, ""}, {"", machine_}, {run_, machine_}}) {
    AlgorithmFile again(run, machine);
    EXPECT_EQ(again.find("a 1 x 2 product"), "0a");
    EXPECT_EQ(again.find("another"), "0b");
    EXPECT_FALSE(again.find("a 1 x 2"));
  }
}

TEST_F(AlgorithmFiles, TheFirstChoiceHolds) {
  AlgorithmFile one(run_, ""), other(run_, "");  // two processes at once
  EXPECT_EQ(one.keep("p", "1", true), "1");
  EXPECT_EQ(other.keep("p", "2", true), "1");
  EXPECT_EQ(other.find("p"), "1");
}

TEST_F(AlgorithmFiles, ARunKeepsWhatItTakesFromTheMachine) {
  AlgorithmFile("", machine_).keep("p", "1", true);
  EXPECT_EQ(AlgorithmFile(run_, machine_).find("p"), "1");
  fs::remove(machine_);
  AlgorithmFile("", machine_).keep("p", "2", true);
  AlgorithmFile both(run_, machine_);
  EXPECT_EQ(both.find("p"), "1");
  EXPECT_EQ(both.keep("p", "3", true), "1");
}

TEST_F(AlgorithmFiles, WhatWasNotMeasuredIsTheRunsAlone) {
  AlgorithmFile both(run_, machine_);
  EXPECT_EQ(both.keep("p", "1", false), "1");
  EXPECT_FALSE(AlgorithmFile("", machine_).find("p"));
  EXPECT_EQ(AlgorithmFile(run_, machine_).find("p"), "1");
  EXPECT_TRUE(both.may_measure());
  EXPECT_FALSE(AlgorithmFile(run_, machine_, false).may_measure());
}

TEST_F(AlgorithmFiles, TornLinesAreNoChoices) {
  AlgorithmFile(run_, "").keep("a product", "0123", true);
  AlgorithmFile(run_, "").keep("b", "4567", true);
  const std::string whole = read_file(run_);
  for (size_t end = 0; end < whole.size(); ++end) {
    write(run_, whole.substr(0, end));
    AlgorithmFile torn(run_, "");
    for (const auto& [key, choice] : {std::pair{"a product", "0123"}, {"b", "4567"}}) {
      const auto found = torn.find(key);
      EXPECT_TRUE(!found || *found == choice) << end;
    }
    EXPECT_EQ(torn.keep("b", "4567", true), "4567") << "a line of its own";
    EXPECT_EQ(AlgorithmFile(run_, "").find("b"), "4567") << end;
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = char(flipped[at] ^ 4);
    write(run_, flipped);
    AlgorithmFile read(run_, "");
    for (const auto& [key, choice] : {std::pair{"a product", "0123"}, {"b", "4567"}}) {
      const auto found = read.find(key);
      EXPECT_TRUE(!found || *found == choice) << at;
    }
  }
}

TEST_F(AlgorithmFiles, WhatCannotBeWrittenIsRemembered) {
  write(run_, "");
  AlgorithmFile nowhere(run_ / "below" / "a file", "");
  EXPECT_EQ(nowhere.keep("p", "1", true), "1");
  EXPECT_EQ(nowhere.find("p"), "1");
}

TEST_F(AlgorithmFiles, ManyMayAddAtOnce) {
  std::vector<std::map<std::string, std::string>> kept(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kept.size(); ++t) {
    threads.emplace_back([&, t] {
      AlgorithmFile own(run_, "");
      for (int n = 0; n < 50; ++n) {
        const std::string key = "product " + std::to_string(n);
        kept[t][key] = own.keep(key, std::to_string(t), true);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  AlgorithmFile after(run_, "");
  for (const auto& of_thread : kept) {
    for (const auto& [key, choice] : of_thread) EXPECT_EQ(after.find(key), choice) << key;
  }
  const std::string text = read_file(run_);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 50);
}

}  // namespace
}  // namespace pal
