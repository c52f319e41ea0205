// A test of one operator by its cases: what the tests of every operator share, on the processor
// (generic_test.cc) and on a GPU (tests/emulation/ops_test.cc).
#pragma once
#include <gtest/gtest.h>

#include <functional>

#include "tests/ops/generic/checks.h"

namespace pal::test {

class OperatorTest : public testing::TestWithParam<const OpDef*> {
 protected:
  // The case of example e has the seed e + 1.
  virtual std::vector<Case> cases() const = 0;

  // A failure for each of the first five problems.
  void expect_none(const Problems& problems, const std::string& where) {
    for (size_t i = 0; i < std::min<size_t>(problems.size(), 5); ++i) {
      ADD_FAILURE() << "[" << GetParam()->name << "] " << where << ": " << problems[i];
    }
  }
  void each(const std::function<Problems(const Case&)>& check) {
    for (const Case& c : cases()) {
      const std::string where = "example " + std::to_string(c.seed - 1);
      try {
        expect_none(check(c), where);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "[" << GetParam()->name << "] " << where << " threw: " << error.what();
      }
    }
  }
};

inline std::string name_of(const testing::TestParamInfo<const OpDef*>& param) {
  return param.param->name;
}

}  // namespace pal::test
