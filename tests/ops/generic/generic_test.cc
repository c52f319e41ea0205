// Every operator × backend, from its own examples. The checks are in checks.h; meta_test.cc and
// meta_structure_test.cc show that each of them can fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "tests/ops/generic/operator_test.h"

namespace pal::test {
namespace {

// Float outputs through which no gradient flows: stashed for the backward pass, never in a loss.
const std::map<std::string, std::vector<int>> kStatistics = {
    {"attention", {1}},         // log sum exp
    {"batch_norm", {1, 2, 3}},  // mean, 1 / standard deviation, variance
    {"cross_entropy", {1, 2}},  // nll for the log, log sum exp
    {"ctc_loss", {1, 2, 3}},    // nll of each sequence, log sum exp, the forward variables
    {"frame_norm", {1, 2, 3}},  // mean, 1 / standard deviation, variance
    {"gru_cell", {1, 2}},       // what its gradient reads
    {"layer_norm", {1, 2}},     // mean, 1 / standard deviation
};

class Generic : public OperatorTest {
 protected:
  std::vector<Case> cases() const override {
    std::vector<Case> out;
    for (auto& example : GetParam()->examples) {
      out.push_back(make_case(*GetParam(), example, out.size() + 1));
    }
    return out;
  }
};

TEST_P(Generic, HasExamplesAndFacts) {
  EXPECT_GE(GetParam()->examples.size(), 2u) << GetParam()->name;
  each(check_facts);
  expect_none(check_attrs(GetParam()->examples), "attributes");
  expect_none(check_zeros(cases()), "zeros");
  expect_none(check_optional(cases()), "operands");
}
TEST_P(Generic, WritesAllOfItsOutputsAndNothingElse) { each(check_writes); }
TEST_P(Generic, SharesAndWindows) {
  each(check_shares);
  each(check_windows);
  expect_none(check_shares_exercised(cases()), "shares");
}
TEST_P(Generic, ReadsWhatItSays) {
  each(check_predicates);
  each(check_shape_only);
}
TEST_P(Generic, SameBitsForAnyThreadsAndAlignment) {
  each(check_threads);
  each([](const Case& c) { return check_alignment(c); });
}
TEST_P(Generic, IsPure) {
  expect_none(check_purity(cases()), "examples");
  each(check_unread);
}
TEST_P(Generic, HasPartsThatGiveItsBits) {
  each([](const Case& c) { return check_parts(c); });
}
TEST_P(Generic, GivesTheSameRowsByParts) {
  each(check_rows);
  expect_none(check_rows_exercised(cases()), "rows");
}
TEST_P(Generic, RoundsWhatItStoresIn16Bits) { each(check_rounding); }
TEST_P(Generic, GroupsAreEachAsIfAlone) {
  if (!takes_groups(*GetParam())) return;
  expect_none(check_groups(*GetParam(), GetParam()->examples), "groups");
}
TEST_P(Generic, RefusesWhatDoesNotFit) { each(check_infer); }
// What they write is kept within an update, or follows from an update that had a gate.
const std::set<std::string> kUngated{"gather_state", "put_row"};
class GenericUpdate : public Generic {};
TEST_P(GenericUpdate, WritesItsState) {
  // Of one rank, as here, there is nothing to gather.
  if (std::string("gather_state") != GetParam()->name) each(check_update);
  if (GetParam()->collective) {
    expect_none(check_groups(*GetParam(), GetParam()->examples), "groups");
  }
  if (kUngated.contains(GetParam()->name)) return;
  const auto all = cases();
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), has_gate)) << "no example has a gate";
}
class GenericGradient : public Generic {};
TEST_P(GenericGradient, MatchesDifferences) {
  const auto at = kStatistics.find(GetParam()->name);
  const std::vector<int> statistics = at == kStatistics.end() ? std::vector<int>{} : at->second;
  each([&](const Case& c) { return check_gradient(c, statistics); });
}

std::vector<const OpDef*> ops_that(bool (*hold)(const OpDef&)) {
  std::vector<const OpDef*> out;
  for (const OpDef* op : all_ops()) {
    if (hold(*op)) out.push_back(op);
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Cpu, Generic,
                         testing::ValuesIn(ops_that([](const OpDef&) { return true; })), name_of);
INSTANTIATE_TEST_SUITE_P(Cpu, GenericUpdate, testing::ValuesIn(ops_that([](const OpDef& op) {
                           return op.writes_state;
                         })),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Cpu, GenericGradient, testing::ValuesIn(ops_that([](const OpDef& op) {
                           return op.gradient != nullptr;
                         })),
                         name_of);

TEST(AllOps, NamesAreUniqueAndSorted) {
  std::set<std::string> names;
  for (const OpDef* op : all_ops()) EXPECT_TRUE(names.insert(op->name).second) << op->name;
}

}  // namespace
}  // namespace pal::test
