// Gates under schedules drawn by chance: no byte has two owners, and somebody can always go on.
#include "memory/share/gate.h"

#include <gtest/gtest.h>

#include <deque>

#include "core/error.h"
#include "tests/memory/share/schedule.h"

namespace pal::test {
namespace {

constexpr int kCircles = 1000, kSchedules = 10;

std::vector<Player> players_of(const Circle& circle, const PoolPlacement& placement,
                               Random& random) {
  std::vector<Player> players;
  for (size_t j = 0; j < circle.jobs.size(); ++j) {
    const JobOnCircle& job = circle.jobs[j];
    players.push_back(
        {{job.shape}, {placement.offset[j]}, job.steps * random.between(1, 3) + random.below(2)});
  }
  return players;
}

TEST(CircleGate, NobodyTakesWhatAnotherHoldsAndAllComeToTheirEnd) {
  Random random(1);
  ScheduleCounts counts;
  for (int round = 0; round < kCircles; ++round) {
    const RandomCircle r = random_circle(random, size_t(random.between(2, 4)), 3);
    const PoolPlacement placement = place_on(r.circle);
    const int64_t grain = round % 3 == 0 ? 64 : round % 3 == 1 ? 4096 : placement.height;
    const CircleWaits waits = waits_of(r.circle, placement, grain);
    ASSERT_NO_THROW(check_waits(r.circle, waits)) << "round " << round;
    for (int i = 0; i < kSchedules; ++i) {
      const auto gate = circle_gate(r.circle, waits);
      Schedule schedule(*gate, players_of(r.circle, placement, random), placement.height, random);
      ASSERT_EQ(run_by_chance(schedule, r.circle.jobs.size(), random, counts), "")
          << "round " << round << ", schedule " << i << ", grain " << grain;
    }
  }
  EXPECT_GT(counts.waits, 10000);
  EXPECT_GT(counts.left_within, 1000);
  EXPECT_GT(counts.left_between, 100);
  EXPECT_GT(counts.late, 1000);
}

// One job stops right before what a wait is for, and the other, which went no further than it had
// to, goes on as far as it may. "", or what goes wrong in one of the first periods.
std::string push_against(const Circle& circle, const PoolPlacement& placement,
                         const CircleWaits& waits, JobId waiting, const CircleWait& wait) {
  for (int64_t period = 0; period < 3; ++period) {
    Random random(1);
    const auto gate = circle_gate(circle, waits);
    std::vector<Player> players = players_of(circle, placement, random);
    for (Player& player : players) player.steps_left = 100;
    Schedule schedule(*gate, std::move(players), placement.height, random);
    const std::pair<int64_t, int64_t> stop{
        period * circle.jobs[size_t(wait.other)].steps + wait.other_step, wait.other_moment};
    bool any = true;
    while (any && schedule.next(waiting).first < 50 && schedule.wrong().empty()) {
      any =
          (schedule.next(wait.other) < stop && schedule.move(wait.other)) || schedule.move(waiting);
    }
    if (!schedule.wrong().empty()) return schedule.wrong();
  }
  return "";
}

// Of two jobs every wait is needed.
TEST(CircleGate, NoWaitCanBeLeftOut) {
  Random random(2);
  int left_out = 0;
  for (int round = 0; round < 500; ++round) {
    const RandomCircle r = random_circle(random, 2, 3);
    const PoolPlacement placement = place_on(r.circle);
    const CircleWaits waits = waits_of(r.circle, placement);
    for (size_t j = 0; j < waits.size(); ++j) {
      for (size_t step = 0; step < waits[j].size(); ++step) {
        for (size_t w = 0; w < waits[j][step].size(); ++w) {
          const CircleWait wait = waits[j][step][w];
          ASSERT_EQ(push_against(r.circle, placement, waits, JobId(j), wait), "");
          CircleWaits fewer = waits;
          fewer[j][step].erase(fewer[j][step].begin() + int64_t(w));
          ASSERT_NE(push_against(r.circle, placement, fewer, JobId(j), wait), "")
              << "round " << round << ", job " << j << ", step " << step << ", wait " << w;
          ++left_out;
        }
      }
    }
  }
  EXPECT_GT(left_out, 1000);
}

TEST(CircleGate, WaitsForEachOtherAreRefused) {
  Random random(3);
  const StepShape shape = random_shape(random, {.nodes = 4});
  const int64_t ticks = shape.ticks();
  const auto circle_of = [&](size_t jobs, int steps) {
    return Circle{10 * ticks, std::vector<JobOnCircle>(jobs, {&shape, steps, 0, ticks})};
  };
  const auto wait = [](int64_t moment, JobId other, int32_t step, int64_t other_moment) {
    return std::vector<CircleWait>{{moment, other, step, other_moment}};
  };
  const Circle two = circle_of(2, 1), three = circle_of(3, 1), unequal = circle_of(2, 2);
  EXPECT_NO_THROW(check_waits(two, CircleWaits{{{}}, {{}}}));
  EXPECT_NO_THROW(check_waits(two, {{wait(2, 1, 0, 1)}, {wait(4, 0, 0, 3)}}));
  EXPECT_THROW(check_waits(two, {{wait(2, 1, 0, 3)}, {wait(2, 0, 0, 3)}}), ProgramError);
  // Over the circle's end: each waits for a step that the other makes after this one.
  EXPECT_NO_THROW(check_waits(two, {{wait(2, 1, -1, 3)}, {wait(2, 0, 0, 3)}}));
  EXPECT_THROW(check_waits(two, {{wait(2, 1, -1, 3)}, {wait(2, 0, 1, 3)}}), ProgramError);
  EXPECT_THROW(check_waits(unequal, {{wait(2, 1, 1, 5), {}}, {wait(2, 0, 0, 5), {}}}),
               ProgramError);
  EXPECT_NO_THROW(check_waits(unequal, {{wait(2, 1, 0, 5), {}}, {{}, wait(2, 0, 0, 5)}}));
  EXPECT_THROW(check_waits(three, {{wait(2, 1, 0, 3)}, {wait(2, 2, 0, 3)}, {wait(2, 0, 0, 3)}}),
               ProgramError);
  EXPECT_NO_THROW(check_waits(three, {{wait(2, 1, 0, 3)}, {wait(2, 2, 0, 3)}, {wait(4, 0, 0, 1)}}));
}

// Programs of several jobs, and where their storages lie: from either end of the pool, or
// somewhere.
struct RandomJobs {
  std::vector<std::unique_ptr<StepShape>> shapes;
  std::vector<Player> players;
  int64_t pool_bytes = 0;
};

RandomJobs random_jobs(Random& random) {
  RandomJobs out;
  const int64_t jobs = random.between(2, 4);
  for (int64_t j = 0; j < jobs; ++j) {
    Player& player = out.players.emplace_back();
    player.steps_left = random.between(1, 6);
    for (int64_t p = random.between(1, 3); p > 0; --p) {
      const ShapeOptions options{.nodes = random.between(2, 8),
                                 .buffers = random.between(1, 10),
                                 .bytes = random.one_in(2) ? 64 : 1024};
      out.shapes.push_back(std::make_unique<StepShape>(random_shape(random, options)));
      const StepShape& shape = *out.shapes.back();
      player.programs.push_back(&shape);
      out.pool_bytes = std::max(out.pool_bytes, shape.alone_bytes - shape.own_bytes);
    }
  }
  if (random.one_in(2)) out.pool_bytes += 64 * random.below(out.pool_bytes / 64);
  for (Player& player : out.players) {
    const bool shifted = random.one_in(2);
    const PoolPlacement apart = place_apart(player.programs, out.pool_bytes);
    player.offset = apart.offset;
    for (size_t p = 0; shifted && p < player.programs.size(); ++p) {
      const int64_t height = place_longest_first(*player.programs[p], player.offset[p]);
      const int64_t shift = 64 * random.below((out.pool_bytes - height) / 64 + 1);
      for (int64_t& offset : player.offset[p]) offset += shift;
    }
  }
  return out;
}

TEST(TicketGate, NobodyTakesWhatAnotherHoldsAndAllComeToTheirEnd) {
  Random random(4);
  ScheduleCounts counts;
  for (int round = 0; round < kCircles; ++round) {
    const RandomJobs r = random_jobs(random);
    const int64_t region = round % 3 == 0 ? 64 : round % 3 == 1 ? 4096 : r.pool_bytes;
    std::vector<std::vector<RegionProgram>> programs;
    for (const Player& player : r.players) {
      auto& of_job = programs.emplace_back();
      for (size_t p = 0; p < player.programs.size(); ++p) {
        of_job.push_back(region_program(*player.programs[p], player.offset[p], region));
      }
    }
    const auto regions = int32_t((r.pool_bytes + region - 1) / region);
    for (int i = 0; i < kSchedules; ++i) {
      const auto gate = ticket_gate(programs, regions);
      Schedule schedule(*gate, r.players, r.pool_bytes, random);
      ASSERT_EQ(run_by_chance(schedule, r.players.size(), random, counts), "")
          << "round " << round << ", schedule " << i << ", region " << region;
    }
  }
  EXPECT_GT(counts.waits, 10000);
  EXPECT_GT(counts.left_within, 1000);
  EXPECT_GT(counts.left_between, 100);
  EXPECT_GT(counts.late, 1000);
}

TEST(TurnGate, NobodyTakesWhatAnotherHoldsAndAllComeToTheirEnd) {
  Random random(5);
  ScheduleCounts counts;
  for (int round = 0; round < kCircles; ++round) {
    const RandomJobs r = random_jobs(random);
    for (int i = 0; i < kSchedules; ++i) {
      const auto gate = turn_gate();
      Schedule schedule(*gate, r.players, r.pool_bytes, random);
      schedule.is_at_once();
      ASSERT_EQ(run_by_chance(schedule, r.players.size(), random, counts), "") << "round " << round;
    }
  }
  EXPECT_GT(counts.waits, 10000);
}

TEST(TurnGate, StepsComeInTheOrderInWhichTheyWereAskedFor) {
  Random random(6);
  const auto gate = turn_gate();
  std::deque<JobId> asked;
  std::vector<char> within(4, 0);
  int turns = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto job = JobId(random.below(4));
    if (!within[size_t(job)]) {
      gate->begin_step(job, 0);
      asked.push_back(job), within[size_t(job)] = 1;
      ASSERT_EQ(gate->asks(job), std::vector<int64_t>{0});
    } else if (gate->may_pass(job, 0)) {
      ASSERT_EQ(asked.front(), job);
      random.one_in(10) ? gate->leave(job) : gate->end_step(job);
      asked.pop_front(), within[size_t(job)] = 0, ++turns;
    } else {
      ASSERT_NE(asked.front(), job);
      if (!random.one_in(20)) continue;
      gate->leave(job);
      std::erase(asked, job), within[size_t(job)] = 0;
    }
  }
  EXPECT_GT(turns, 3000);
}

// A job that failed within a step holds nothing, and nobody waits for what it would have needed.
TEST(TicketGate, WhatAJobHeldIsFreeOnceItLeaves) {
  const RegionProgram all{.moments = 8, .uses = {{0, {0}, {}}, {2, {1}, {}}, {7, {}, {0, 1}}}};
  const RegionProgram second{.moments = 4, .uses = {{0, {1}, {}}, {3, {}, {1}}}};
  const auto gate = ticket_gate({{all}, {second}}, 2);
  gate->begin_step(0, 0);
  gate->begin_step(1, 0);
  EXPECT_TRUE(gate->may_pass(0, 0));
  EXPECT_FALSE(gate->may_pass(1, 0)) << "an older step needs it";
  const auto copy = gate->clone();
  EXPECT_TRUE(gate->may_pass(0, 2));
  gate->leave(0);
  EXPECT_TRUE(gate->may_pass(1, 0));
  EXPECT_FALSE(copy->may_pass(1, 0)) << "the copy is another gate";
}

TEST(RegionBytes, AreTheLargestThatWasteNoMoreThanAHundredth) {
  constexpr int64_t kMebibyte = 1 << 20;
  EXPECT_EQ(region_bytes_of(64 * 64 * kMebibyte), 64 * kMebibyte);
  EXPECT_EQ(region_bytes_of(8192 * kMebibyte - 64), 64 * kMebibyte);
  EXPECT_EQ(region_bytes_of(100 * kMebibyte), 4 * kMebibyte);
  EXPECT_EQ(region_bytes_of(1027 * kMebibyte), 8 * kMebibyte) << "wastes 5 of 1027 MiB";
  EXPECT_EQ(region_bytes_of(6400), 64);
  EXPECT_EQ(region_bytes_of(64'000), 640);
  EXPECT_EQ(region_bytes_of(0), 64 * kMebibyte);
}

// Two storages that follow one another in a region at once are one need of it.
TEST(RegionProgram, TakesAndGivesAtTheEdgesOfWhatLiesInARegion) {
  StepShape shape;
  shape.tick = {0, 1, 1, 2, 2, 3, 3, 4, 4};
  shape.buffers = {{{0, 3}, 128, {}}, {{2, 5}, 64, {}}, {{6, 8}, 64, {}}};
  const RegionProgram p = region_program(shape, {0, 128, 0}, 128);
  EXPECT_EQ(p.moments, 8);
  ASSERT_EQ(p.uses.size(), 6u);
  const std::vector<RegionUse> expected{{0, {0}, {}}, {2, {1}, {}}, {3, {}, {0}},
                                        {5, {}, {1}}, {6, {0}, {}}, {8, {}, {0}}};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(p.uses[i].moment, expected[i].moment);
    EXPECT_EQ(p.uses[i].takes, expected[i].takes);
    EXPECT_EQ(p.uses[i].gives, expected[i].gives);
  }
  const RegionProgram whole = region_program(shape, {0, 128, 0}, 192);
  ASSERT_EQ(whole.uses.size(), 4u) << "free between 5 and 6 alone";
  EXPECT_EQ(whole.uses[1].moment, 5);
  EXPECT_EQ(whole.uses[2].moment, 6);
}

}  // namespace
}  // namespace pal::test
