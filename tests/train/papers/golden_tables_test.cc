// Each table that is predicted, to the last digit: tests/train/golden/tables has what pal reproduce
// prints. Its figures are those of docs/results/papers.md, so a change here is one of that page.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/golden_text.h"
#include "train/commands/commands.h"
#include "train/papers/reproduce.h"

namespace pal {
namespace {

std::vector<std::string> predicted() {
  std::vector<std::string> names;
  for (const Reproduction& r : reproductions()) {
    if (r.make) names.emplace_back(r.name);
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
  testing::internal::CaptureStdout();
  run_reproduce({.name = GetParam()});
  expect_golden("train/golden/tables/" + GetParam() + ".txt",
                testing::internal::GetCapturedStdout());
}

INSTANTIATE_TEST_SUITE_P(Papers, GoldenTables, testing::ValuesIn(predicted()), with_underscores);

}  // namespace
}  // namespace pal
