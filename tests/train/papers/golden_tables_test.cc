// Each table that is predicted, to the last digit: tests/train/golden/tables has what pal reproduce
// prints. Its figures are those of docs/results/papers.md, so a change here is one of that page.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/support/golden_text.h"
#include "train/commands/commands.h"
#include "train/papers/reproduce.h"

namespace pal {
namespace {

// Those that take more than a minute are left out: they ask the same of more networks or batches.
const std::set<std::string> kLong{"echo-fig18",  "delta-fig3",    "zico-fig5", "zico-fig6",
                                  "zico-fig8",   "zico-uvm",      "zico-fair", "zico-four",
                                  "zico-table2", "zico-scheduler"};

std::vector<std::string> predicted() {
  std::vector<std::string> names;
  for (const Reproduction& r : reproductions()) {
    if (r.make && !kLong.contains(r.name)) names.emplace_back(r.name);
  }
  return names;
}

std::string with_underscores(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

class GoldenTables : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTables, AreToTheDigitWhatTheyWere) {
  if (was_run_apart()) return;
  testing::internal::CaptureStdout();
  run_reproduce({.name = GetParam()});
  std::string text = testing::internal::GetCapturedStdout();
  // Seconds of planning are measured; columns are as wide as they.
  text = std::regex_replace(text, std::regex("[0-9.]+ s( |\n)"), "# s$1");
  text = std::regex_replace(text, std::regex("  +"), "  ");
  expect_golden("train/golden/tables/" + GetParam() + ".txt", text);
}

INSTANTIATE_TEST_SUITE_P(Papers, GoldenTables, testing::ValuesIn(predicted()), with_underscores);

}  // namespace
}  // namespace pal
