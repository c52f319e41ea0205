// Jobs whose rates can be worked out by hand.
#include "memory/share/simulate.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "memory/share/corun_plan.h"
#include "tests/memory/share/shapes.h"

namespace pal::test {
namespace {

SimulatedRun together(const std::vector<StepShape>& shapes, double ms = 1200) {
  std::vector<SimulatedJob> jobs;
  for (const StepShape& shape : shapes) jobs.push_back({.programs = {&shape}});
  const auto gate = open_gate();
  return simulate(jobs, *gate, ms);
}

TEST(Simulate, HalfOfTheUnitsEachIsTwiceTheWork) {
  const StepShape half = step_like({.work_ms = 1, .units = 0.5});
  const SimulatedRun run = together({half, half});
  EXPECT_NEAR(run.total(), 2, 1e-9);
  EXPECT_NEAR(run.ms, 1200, 1e-9);
  EXPECT_EQ(run.steps[0].size(), 300u);
  EXPECT_FALSE(run.stuck);
}

TEST(Simulate, AllOfTheUnitsEachIsNoMoreThanTurns) {
  const StepShape all = step_like({.work_ms = 1, .units = 1});
  const SimulatedRun run = together({all, all, all});
  EXPECT_NEAR(run.total(), 1, 1e-9);
  for (const double rate : run.rate) EXPECT_NEAR(rate, 1. / 3, 1e-9);
}

// In step with each other: both launch for 1 ms, then both work 1 ms at half their speed. Of 3 ms
// each makes what takes it 2 alone.
TEST(Simulate, NothingIsUsedInALaunch) {
  const StepShape gaps = step_like({.launch_ms = 1, .work_ms = 1, .units = 1});
  const SimulatedRun run = together({gaps, gaps});
  for (const double rate : run.rate) EXPECT_NEAR(rate, 2. / 3, 1e-9);
}

// One works all the time, the other idles for 1 ms, launches for 1 and works for 2: in 6 ms it
// makes what takes it 4 alone, and leaves 2 + 4/2 to the first.
TEST(Simulate, IdleTimesAndLaunchesAreFilled) {
  const SimulatedRun run =
      together({step_like({.work_ms = 2, .units = 1}),
                step_like({.idle_ms = 1, .launch_ms = 1, .work_ms = 2, .units = 1}, 1)});
  for (const double rate : run.rate) EXPECT_NEAR(rate, 2. / 3, 1e-9);
}

TEST(Simulate, WhoAsksForMoreThanAllSlowsThoseThatUseIt) {
  const StepShape memory = step_like({.work_ms = 1, .memory = 0.8, .units = 0.1});
  const StepShape flops = step_like({.work_ms = 1, .flops = 0.9, .units = 0.1});
  const StepShape little = step_like({.work_ms = 1, .flops = 0.3, .units = 0.1});
  SimulatedRun run = together({memory, memory});
  for (const double rate : run.rate) EXPECT_NEAR(rate, 1 / 1.6, 1e-9);
  run = together({memory, memory, flops});
  EXPECT_NEAR(run.rate[0], 1 / 1.6, 1e-9);
  EXPECT_NEAR(run.rate[2], 1, 1e-9);
  run = together({flops, memory, little});
  EXPECT_NEAR(run.rate[0], 1 / 1.2, 1e-9);
  EXPECT_NEAR(run.rate[1], 1, 1e-9);
  EXPECT_NEAR(run.rate[2], 1 / 1.2, 1e-9);
}

TEST(Simulate, AloneTheRateIsOne) {
  const StepShape shape = step_like({.idle_ms = 0.5, .launch_ms = 0.25, .work_ms = 1, .units = 1});
  const SimulatedRun run = together({shape}, 70);
  EXPECT_NEAR(run.rate[0], 1, 1e-9);
  EXPECT_NEAR(run.waited_ms[0], 0, 1e-9);
  ASSERT_EQ(run.steps[0].size(), 10u);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_NEAR(run.steps[0][i].begin_ms, 7. * double(i), 1e-9);
    EXPECT_NEAR(run.steps[0][i].end_ms, 7. * double(i + 1), 1e-9);
  }
  // A step that is not over counts by what has been done of it.
  EXPECT_NEAR(together({shape}, 23.1).rate[0], 1, 1e-9);
}

TEST(Simulate, TurnsAreOneStepAtATime) {
  const std::vector<StepShape> shapes{step_like({.work_ms = 1, .units = 0.1}, 1),
                                      step_like({.work_ms = 1, .units = 0.1}, 3),
                                      step_like({.launch_ms = 1, .work_ms = 3, .units = 0.1}, 2)};
  std::vector<SimulatedJob> jobs;
  std::vector<const StepShape*> of;
  for (const StepShape& shape : shapes)
    jobs.push_back({.programs = {&shape}}), of.push_back(&shape);
  const auto gate = turn_gate();
  const SimulatedRun run = simulate(jobs, *gate, 12 * (1 + 3 + 8));
  EXPECT_NEAR(run.total(), 1, 1e-6);
  const std::vector<double> turns = rates_in_turns(of);
  for (size_t j = 0; j < 3; ++j) {
    EXPECT_NEAR(run.rate[j], turns[j], 1e-9);
    EXPECT_NEAR(run.waited_ms[j], run.ms * (1 - turns[j]), 1e-6);
    EXPECT_EQ(run.steps[j].size(), 12u);
  }
  EXPECT_NEAR(run.steps[1][0].begin_ms, 1, 1e-9);
  EXPECT_NEAR(run.steps[2][0].begin_ms, 4, 1e-9);
  EXPECT_NEAR(run.steps[0][1].begin_ms, 12, 1e-9);
}

TEST(Simulate, JobsThatWaitForEachOtherAreStuck) {
  const StepShape shape = step_like({.work_ms = 1, .units = 1});
  const Circle circle{8'000'000, {{&shape, 1, 0, 4'000'000}, {&shape, 1, 0, 4'000'000}}};
  const CircleWaits waits{{{{.moment = 4, .other = 1, .other_moment = 5}}},
                          {{{.moment = 4, .other = 0, .other_moment = 5}}}};
  EXPECT_THROW(check_waits(circle, waits), ProgramError);
  const auto gate = circle_gate(circle, waits);
  const SimulatedRun run = simulate({{.programs = {&shape}}, {.programs = {&shape}}}, *gate, 100);
  EXPECT_TRUE(run.stuck);
  EXPECT_NEAR(run.ms, 4, 1e-9) << "two nodes each, at half their speed";
}

// Of each resource it has what it asks for; the others share what is left.
TEST(Simulate, AJobThatGoesFirstHasWhatItAsksFor) {
  const StepShape first = step_like({.work_ms = 1, .memory = 0.4, .units = 0.25}, 1);
  const StepShape memory = step_like({.work_ms = 1, .memory = 0.8, .units = 0.25}, 1);
  const StepShape units = step_like({.work_ms = 1, .units = 1}, 1);
  const auto gate = open_gate();
  const auto rates = [&](JobId id, const StepShape& other) {
    return simulate({{.programs = {&first}}, {.programs = {&other}}}, *gate, 64,
                    {.first = {.job = id}})
        .rate;
  };
  EXPECT_NEAR(rates(0, memory)[0], 1, 1e-9);
  EXPECT_NEAR(rates(0, memory)[1], 0.6 / 0.8, 1e-6);
  EXPECT_NEAR(rates(0, units)[1], 0.75, 1e-6);
  EXPECT_NEAR(rates(1, memory)[0], 0.2 / 0.4, 1e-6);
  EXPECT_NEAR(rates(1, memory)[1], 1, 1e-9);
  EXPECT_LT(rates(1, units)[0], 0.01) << "next to nothing is left";
  EXPECT_NEAR(rates(-1, memory)[0], 1 / 1.2, 1e-6);
  const SimulatedRun three =
      simulate({{.programs = {&first}}, {.programs = {&units}}, {.programs = {&units}}}, *gate, 64,
               {.first = {.job = 0}});
  EXPECT_NEAR(three.rate[0], 1, 1e-9);
  EXPECT_NEAR(three.rate[1], 0.375, 1e-6);
  EXPECT_NEAR(three.rate[2], 0.375, 1e-6);
}

// What leaves some of the device to others has what it asks for, whoever's it is; nodes that take
// all have the rest, and among themselves they share.
TEST(Simulate, LightNodesGoFirst) {
  const StepShape light = step_like({.work_ms = 1, .units = 0.25}, 1);
  const StepShape less_light = step_like({.work_ms = 1, .units = 0.75}, 1);
  const StepShape heavy = step_like({.work_ms = 1, .units = 1}, 1);
  const auto gate = open_gate();
  const auto rates = [&](const StepShape& a, const StepShape& b, bool first) {
    return simulate({{.programs = {&a}}, {.programs = {&b}}}, *gate, 64,
                    {.first = {.light = first}})
        .rate;
  };
  EXPECT_NEAR(rates(light, heavy, true)[0], 1, 1e-9);
  EXPECT_NEAR(rates(light, heavy, true)[1], 0.75, 1e-6);
  EXPECT_NEAR(rates(heavy, light, true)[0], 0.75, 1e-6);
  EXPECT_NEAR(rates(light, heavy, false)[0], 1 / 1.25, 1e-6);
  EXPECT_NEAR(rates(less_light, less_light, true)[0], 1 / 1.5, 1e-6);
  EXPECT_NEAR(rates(heavy, heavy, true)[1], 0.5, 1e-6);
}

TEST(Simulate, ASlowJobTakesLonger) {
  const StepShape shape = step_like({.idle_ms = 1, .launch_ms = 1, .work_ms = 2, .units = 0.5}, 1);
  const auto gate = open_gate();
  const SimulatedRun run = simulate(
      {{.programs = {&shape}, .speed = 0.5}, {.programs = {&shape}, .speed = 2}}, *gate, 64);
  EXPECT_NEAR(run.rate[0], 0.5, 1e-9);
  EXPECT_NEAR(run.rate[1], 2, 1e-9);
  EXPECT_EQ(run.steps[0].size(), 8u);
  EXPECT_EQ(run.steps[1].size(), 32u);
}

TEST(Simulate, ProgramsComeInTurn) {
  const StepShape one = step_like({.work_ms = 1}, 1), two = step_like({.work_ms = 1}, 2);
  const auto gate = open_gate();
  const SimulatedRun run = simulate({{.programs = {&one, &two, &two}}}, *gate, 10);
  ASSERT_EQ(run.steps[0].size(), 6u);
  const std::vector<double> ends{1, 3, 5, 6, 8, 10};
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(run.steps[0][i].end_ms, ends[i], 1e-9);
}

}  // namespace
}  // namespace pal::test
