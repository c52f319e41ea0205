// Groups of jobs that do not know of each other.
#include "memory/share/grouped_gate.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "memory/share/simulate.h"
#include "tests/memory/share/shapes.h"

namespace pal::test {
namespace {

StepShape step_of_ms(double ms) {
  StepShape shape;
  const auto ticks = int64_t(ms * 1e6);
  shape.tick = {0, ticks, ticks};
  shape.nodes.push_back({.work_ms = ms, .units = 0.1}), shape.node.push_back(NodeId(0));
  return shape;
}

std::unique_ptr<PoolGate> two_pairs() {
  std::vector<std::unique_ptr<PoolGate>> gates;
  gates.push_back(turn_gate()), gates.push_back(turn_gate());
  return grouped_gate(std::move(gates), {{0, 3}, {2, 1}});
}

// 0 and 3 go in turns, and beside them 2 and 1.
TEST(GroupedGate, PairsAreSideBySide) {
  const StepShape one = step_of_ms(1), three = step_of_ms(3);
  const auto gate = two_pairs();
  const SimulatedRun run = simulate(
      {{.programs = {&one}}, {.programs = {&one}}, {.programs = {&three}}, {.programs = {&three}}},
      *gate, 400);
  EXPECT_NEAR(run.rate[0], 0.25, 1e-9);
  EXPECT_NEAR(run.rate[3], 0.75, 1e-9);
  EXPECT_NEAR(run.rate[1], 0.25, 1e-9);
  EXPECT_NEAR(run.rate[2], 0.75, 1e-9);
  EXPECT_NEAR(run.steps[1][0].begin_ms, 0, 1e-9) << "job 1 asked first of its group";
  EXPECT_NEAR(run.steps[3][0].begin_ms, 1, 1e-9);
}

TEST(GroupedGate, ACopyGoesOnByItself) {
  const auto gate = two_pairs();
  gate->begin_step(0, 0), gate->begin_step(3, 0), gate->begin_step(1, 0);
  const auto copy = gate->clone();
  copy->leave(0);
  EXPECT_TRUE(copy->may_pass(3, 0));
  EXPECT_FALSE(gate->may_pass(3, 0));
  EXPECT_TRUE(gate->may_pass(1, 0));
  gate->end_step(0);
  EXPECT_TRUE(gate->may_pass(3, 0));
}

// Notes who asked for what.
class Listening final : public PoolGate {
 public:
  explicit Listening(std::vector<JobId>& heard) : heard_(heard) {}
  void begin_step(JobId job, size_t) override { heard_.push_back(job); }
  void end_step(JobId job) override { heard_.push_back(job); }
  const std::vector<int64_t>& asks(JobId job) const override { return note(job), none_; }
  const std::vector<int64_t>& reports(JobId job) const override { return note(job), none_; }
  bool may_pass(JobId job, int64_t) override { return note(job), true; }
  void passed(JobId job, int64_t) override { note(job); }
  void leave(JobId job) override { note(job); }
  std::unique_ptr<PoolGate> clone() const override { return nullptr; }

 private:
  void note(JobId job) const { heard_.push_back(job); }
  std::vector<JobId>& heard_;
  std::vector<int64_t> none_;
};

TEST(GroupedGate, AGateCountsItsOwnJobs) {
  std::vector<JobId> first, second;
  std::vector<std::unique_ptr<PoolGate>> gates;
  gates.push_back(std::make_unique<Listening>(first));
  gates.push_back(std::make_unique<Listening>(second));
  const auto gate = grouped_gate(std::move(gates), {{4, 2}, {1, 0, 3}});
  for (const JobId job : {4, 2, 1, 0, 3}) {
    gate->begin_step(job, 0), gate->asks(job), gate->reports(job);
    gate->may_pass(job, 0), gate->passed(job, 0), gate->end_step(job), gate->leave(job);
  }
  std::vector<JobId> expected(7, 0);
  expected.resize(14, 1);
  EXPECT_EQ(first, expected);
  expected.resize(21, 2);
  EXPECT_EQ(second, expected);
}

// A device's queue waits for jobs by their own numbers.
TEST(GroupedGate, WhoLetAJobPassIsSaidByItsOwnNumber) {
  const RegionProgram all{.moments = 4, .uses = {{0, {0}, {}}, {3, {}, {0}}}};
  std::vector<std::unique_ptr<PoolGate>> gates;
  gates.push_back(open_gate());
  gates.push_back(ticket_gate({{all}, {all}}, 1));
  const auto gate = grouped_gate(std::move(gates), {{1}, {2, 0}});
  EXPECT_EQ(gate->stops(0), (std::vector<int64_t>{0, 3}));
  EXPECT_TRUE(gate->stops(1).empty());
  gate->begin_step(2, 0), gate->begin_step(0, 0), gate->begin_step(1, 0);
  EXPECT_TRUE(gate->may_pass(2, 0));
  EXPECT_FALSE(gate->may_pass(0, 0));
  gate->passed(2, 3);
  EXPECT_TRUE(gate->may_pass(0, 0));
  std::vector<PassedMoment> after{{1, 0, 0}};
  gate->after(0, 0, after);
  ASSERT_EQ(after.size(), 2u);
  EXPECT_EQ(after[0].job, 1) << "what was there stays";
  EXPECT_EQ(after[1].job, 2);
  EXPECT_EQ(after[1].step, 0);
  EXPECT_EQ(after[1].moment, 3);
}

TEST(GroupedGate, EveryJobIsInAGroup) {
  std::vector<std::unique_ptr<PoolGate>> gates;
  gates.push_back(open_gate());
  EXPECT_THROW(grouped_gate(std::move(gates), {{0, 2}}), ProgramError);
}

}  // namespace
}  // namespace pal::test
