// The trial of two ways, with made-up rates.
#include "train/commands/corun_trial.h"

#include <gtest/gtest.h>

namespace pal {
namespace {

// Steps a second of two jobs side by side and in turns, whose steps alone take so long.
struct Rates {
  double shared[2], turns[2], alone[2];
  // Short steps of validation for each step, while jobs run side by side.
  double validation = 0;
};

// Looks every tenth of a second until the trial is over; the way takes a second to begin.
CorunTrial tried(const Rates& rates, CorunGoal goal = CorunGoal::total) {
  CorunTrial trial(goal);
  std::vector<double> steps(2, 0), worked(2, 0), predicted(2, 0);
  bool was_in_turns = false;
  double begun = 0;
  for (int i = 0; i < 100000 && !trial.over(); ++i) {
    const double now = 0.1 * i;
    if (trial.in_turns() != was_in_turns) was_in_turns = trial.in_turns(), begun = now;
    const bool ready = now >= begun + 1;
    std::vector<JobDone> done;
    for (size_t j = 0; j < 2; ++j) {
      // The first steps of a way, and what comes before it, are slow.
      const double rate = trial.in_turns() ? rates.turns[j] : rates.shared[j];
      const bool warm = now >= begun + 1 + 1 / rate;
      steps[j] += 0.1 * rate * (warm ? 1 : 0.5);
      worked[j] += 0.1 * rate * (warm ? 1 : 0.5) * rates.alone[j] * (warm ? 1 : 3);
      predicted[j] += 0.1 * rate * (warm ? 1 : 0.5) * 7;
      if (!trial.in_turns()) {
        // In the time that training takes, so that less of that is done.
        constexpr double kShort = 1e-6;
        steps[j] += 0.1 * rate * rates.validation;
        worked[j] += 0.1 * rate * rates.validation * rates.alone[j] * kShort;
        predicted[j] += 0.1 * rate * rates.validation * 7 * kShort;
      }
      done.push_back({int64_t(steps[j]), worked[j], predicted[j]});
    }
    trial.look(done, now, ready);
  }
  EXPECT_TRUE(trial.over());
  return trial;
}

TEST(CorunTrial, KeepsWhatDoesMore) {
  EXPECT_FALSE(tried({{8, 8}, {5, 5}, {0.1, 0.1}}).in_turns());
  EXPECT_TRUE(tried({{4, 4}, {5, 5}, {0.1, 0.1}}).in_turns());
}

// One short step more does not make up for one long step less.
TEST(CorunTrial, WeighsStepsByWhatTheyTakeAlone) {
  EXPECT_TRUE(tried({{0.5, 6}, {1, 5}, {0.9, 0.02}}).in_turns());
  EXPECT_FALSE(tried({{0.9, 45}, {1, 5}, {0.9, 0.02}}).in_turns());
}

TEST(CorunTrial, StepsOfValidationCountForWhatTheyAre) {
  EXPECT_TRUE(tried({{4, 4}, {5, 5}, {0.1, 0.1}, 20}).in_turns());
  EXPECT_FALSE(tried({{8, 8}, {5, 5}, {0.1, 0.1}, 20}).in_turns());
}

TEST(CorunTrial, FairIsNoJobSlowerThanInTurns) {
  const Rates one_loses{{4, 9}, {5, 5}, {0.1, 0.1}};
  EXPECT_FALSE(tried(one_loses).in_turns());
  EXPECT_TRUE(tried(one_loses, CorunGoal::fair).in_turns());
  EXPECT_FALSE(tried({{6, 6}, {5, 5}, {0.1, 0.1}}, CorunGoal::fair).in_turns());
}

TEST(CorunTrial, SaysWhatItFound) {
  const CorunTrial trial = tried({{8, 8}, {5, 5}, {0.1, 0.1}});
  EXPECT_EQ(trial.line().find("measured: side by side 1.6"), 0u) << trial.line();
  EXPECT_NE(trial.line().find("in turns 1.0"), std::string::npos) << trial.line();
  EXPECT_NE(trial.line().find(": side by side from now on"), std::string::npos) << trial.line();
}

}  // namespace
}  // namespace pal
