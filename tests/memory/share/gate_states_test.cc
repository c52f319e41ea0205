// Every state that jobs can come to with tickets and under Zico's gate, and whether gates that are
// wrong are noticed.
//
// All combinations of needs are tried, but for the order of regions and of jobs; of those, by
// default, one of many. PAL_TEST_ALL_GATES=N: one of N; 1 takes a minute with tickets, and half an
// hour under Zico's gate.
#include "tests/memory/share/gate_states.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace pal::test {
namespace {

std::vector<std::vector<RegionProgram>> one_each(std::vector<RegionProgram> programs) {
  std::vector<std::vector<RegionProgram>> out;
  for (RegionProgram& program : programs) out.push_back({std::move(program)});
  return out;
}

std::unique_ptr<PoolGate> tickets(std::vector<RegionProgram> programs, int32_t regions,
                                  const double*) {
  return ticket_gate(one_each(std::move(programs)), regions);
}

// It goes by turns as soon as one step was foreseen wrongly.
std::unique_ptr<PoolGate> zico(std::vector<RegionProgram> programs, int32_t regions,
                               const double* clock) {
  return zico_gate(
      {.programs = one_each(std::move(programs)), .region_bytes = 64, .regions = regions}, clock,
      {.first_part = 1, .wrong_steps = 1});
}

// Calls with every `usual`th combination.
template <class Work> int64_t each_combination(const GateSize& size, int64_t usual, Work work) {
  const char* asked = std::getenv("PAL_TEST_ALL_GATES");
  const int64_t stride = asked ? std::max<int64_t>(1, std::atoll(asked)) : usual;
  NeedCombinations combinations(size);
  int64_t number = 0, explored = 0;
  do {
    if (!combinations.is_first() || number++ % stride) continue;
    SCOPED_TRACE("combination " + std::to_string(number - 1));
    work(combinations.programs());
    ++explored;
  } while (!testing::Test::HasFailure() && combinations.advance());
  std::printf("%ld of %ld combinations", long(explored), long(number));
  return explored;
}

void explore_tickets(const GateSize& size, int64_t usual) {
  int64_t states = 0;
  const int64_t explored =
      each_combination(size, usual, [&](const std::vector<RegionProgram>& programs) {
        GateStates all(programs, int32_t(size.regions), tickets);
        ASSERT_EQ(all.explore(), "");
        states += all.states();
      });
  EXPECT_GT(states, 10 * explored);
  std::printf(", %ld states\n", long(states));
}

TEST(GateStates, TicketsOfTwoJobsOfFiveEdgesAndThreeRegions) { explore_tickets({2, 3, 5}, 200); }
TEST(GateStates, TicketsOfThreeJobsOfThreeEdgesAndTwoRegions) { explore_tickets({3, 2, 3}, 20); }

// Within steps the learning gate goes by tickets: with some times or other it comes to every state
// that tickets allow.
void explore_zico(const GateSize& size, int64_t usual) {
  int64_t states = 0, within = 0, gave_up = 0;
  const int64_t explored =
      each_combination(size, usual, [&](const std::vector<RegionProgram>& programs) {
        GateStates all(programs, int32_t(size.regions), zico);
        ASSERT_EQ(all.explore(), "");
        GateStates allowed(programs, int32_t(size.regions), tickets);
        ASSERT_EQ(allowed.explore(), "");
        const auto came_to = all.within(), could = allowed.within();
        EXPECT_EQ(came_to.size(), could.size());
        EXPECT_TRUE(std::includes(came_to.begin(), came_to.end(), could.begin(), could.end()));
        states += all.states(), within += int64_t(could.size()), gave_up += all.gave_up();
      });
  EXPECT_GT(states, 10 * explored);
  EXPECT_GT(gave_up, 0);
  std::printf(", %ld states, %ld of all within steps, turns in %ld\n", long(states), long(within),
              long(gave_up));
}

TEST(GateStates, ZicosOfTwoJobsOfFiveEdgesAndThreeRegions) { explore_zico({2, 3, 5}, 5000); }
TEST(GateStates, ZicosOfThreeJobsOfThreeEdgesAndTwoRegions) { explore_zico({3, 2, 3}, 500); }

enum class Wrong : uint8_t { ignores_tickets, frees_at_issue, keeps_what_the_dead_had };

// Takes what is free, whoever began first and needs it still; gives a region back when its last
// reader has been issued; or keeps what a job that left had.
class WrongGate final : public ZicoGate {
 public:
  WrongGate(std::unique_ptr<PoolGate> right, std::vector<RegionProgram> programs, Wrong wrong)
      : right_(std::move(right)),
        programs_(std::move(programs)),
        held_(programs_.size(), 0),
        wrong_(wrong) {}
  WrongGate(const WrongGate& other)
      : right_(other.right_->clone()),
        programs_(other.programs_),
        held_(other.held_),
        wrong_(other.wrong_) {}
  WrongGate& operator=(const WrongGate&) = delete;

  void begin_step(JobId job, size_t program) override { right_->begin_step(job, program); }
  void end_step(JobId job) override { right_->end_step(job); }
  const std::vector<int64_t>& asks(JobId job) const override { return right_->asks(job); }
  const std::vector<int64_t>& reports(JobId job) const override { return right_->reports(job); }
  bool may_pass(JobId job, int64_t moment) override {
    unsigned takes = 0, others = 0;
    for (const RegionUse& use : programs_[size_t(job)].uses) {
      for (const int32_t r : use.takes) takes |= use.moment == moment ? 1u << r : 0;
    }
    for (size_t i = 0; i < held_.size(); ++i) others |= JobId(i) == job ? 0 : held_[i];
    const bool free = wrong_ == Wrong::ignores_tickets && moment > 0 && !(takes & others);
    if (!right_->may_pass(job, moment) && !free) return false;
    held_[size_t(job)] |= takes;
    if (wrong_ == Wrong::frees_at_issue) right_->passed(job, moment + 1);
    return true;
  }
  void passed(JobId job, int64_t moment) override {
    for (const RegionUse& use : programs_[size_t(job)].uses) {
      for (const int32_t r : use.gives)
        held_[size_t(job)] &= use.moment == moment ? ~(1u << r) : ~0u;
    }
    right_->passed(job, moment);
  }
  void leave(JobId job) override {
    if (wrong_ != Wrong::keeps_what_the_dead_had) right_->leave(job), held_[size_t(job)] = 0;
  }
  std::unique_ptr<PoolGate> clone() const override { return std::make_unique<WrongGate>(*this); }
  bool gave_up() const override { return learning() && learning()->gave_up(); }
  int64_t most_bytes() const override { return learning()->most_bytes(); }
  double shifted_ms(JobId job) const override { return learning()->shifted_ms(job); }

 private:
  const ZicoGate* learning() const { return dynamic_cast<const ZicoGate*>(right_.get()); }

  std::unique_ptr<PoolGate> right_;
  std::vector<RegionProgram> programs_;
  std::vector<unsigned> held_;
  Wrong wrong_;
};

// What is said of the first combinations that go wrong.
std::vector<std::string> said_of(Wrong wrong) {
  std::vector<std::string> said;
  const GateSize size{2, 2, 3};
  each_combination(size, 1, [&](const std::vector<RegionProgram>& programs) {
    const MakeGate make = [&](std::vector<RegionProgram> of, int32_t regions, const double* clock) {
      return std::make_unique<WrongGate>(zico(std::move(of), regions, clock), programs, wrong);
    };
    GateStates states(programs, int32_t(size.regions), make);
    if (std::string what = states.explore(); !what.empty()) said.push_back(std::move(what));
  });
  std::printf(", %zu noticed\n", said.size());
  return said;
}

bool any(const std::vector<std::string>& said, const char* what) {
  return std::find(said.begin(), said.end(), what) != said.end();
}

TEST(GateStates, TicketsThatAreIgnoredAreNoticed) {
  EXPECT_TRUE(any(said_of(Wrong::ignores_tickets), "a region has two holders"));
}
TEST(GateStates, RegionsThatAreFreedAtIssueAreNoticed) {
  EXPECT_TRUE(any(said_of(Wrong::frees_at_issue), "a region has two holders"));
}
TEST(GateStates, RegionsThatTheDeadKeepAreNoticed) {
  EXPECT_TRUE(any(said_of(Wrong::keeps_what_the_dead_had), "the job whose step began first waits"));
}

}  // namespace
}  // namespace pal::test
