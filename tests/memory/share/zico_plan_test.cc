// Zico's scheduler over addresses: simulated, under schedules drawn by chance, in all states.
#include "memory/share/zico_plan.h"

#include <gtest/gtest.h>

#include "memory/share/simulate.h"
#include "tests/memory/share/schedule.h"
#include "tests/memory/share/shapes.h"

namespace pal::test {
namespace {

TEST(ZicoPlan, WhatIsLocalLiesAtTheJobsEnd) {
  StepShape shape = hill();
  shape.buffers.push_back({{4, 7}, 128, {}});
  std::swap(shape.buffers[0], shape.buffers[2]);
  PoolOffsets offset;
  EXPECT_EQ(place_for_zico(shape, offset), 128 + 4 * 64);
  EXPECT_EQ(offset, (PoolOffsets{128 + 2 * 64, 128 + 64, 128, 128 + 3 * 64, 0}));
}

TEST(ZicoPlan, ARegionIsHeldFromItsFirstUseToItsLast) {
  const RegionProgram p{.moments = 8,
                        .uses = {{0, {0}, {}}, {3, {}, {0}}, {4, {1, 0}, {}}, {7, {}, {0, 1}}}};
  const RegionProgram held = region_holds(p);
  EXPECT_EQ(held.moments, 8);
  ASSERT_EQ(held.uses.size(), 3u);
  EXPECT_EQ(held.uses[0].takes, std::vector<int32_t>{0});
  EXPECT_EQ(held.uses[1].moment, 4);
  EXPECT_EQ(held.uses[1].takes, std::vector<int32_t>{1});
  EXPECT_TRUE(held.uses[1].gives.empty());
  EXPECT_EQ(held.uses[2].gives, (std::vector<int32_t>{0, 1}));
}

// Both see themselves alone first. In seven regions the second then begins when the first is at its
// third node: from there on they meet nowhere. At first six tenths of them may be used: four.
TEST(ZicoPlan, StepsBeginLateEnough) {
  const StepShape shape = hill();
  const auto way = zico_within({&shape, &shape}, 7 * 64);
  ASSERT_TRUE(way);
  EXPECT_EQ(way->pool_bytes, 7 * 64);
  double clock = 0;
  const auto gate = zico_gate_of(*way, {&shape, &shape}, &clock);
  const SimulatedRun run =
      simulate({{.programs = {&shape}}, {.programs = {&shape}}}, *gate, 1200, {.clock = &clock});
  EXPECT_DOUBLE_EQ(run.steps[0][0].end_ms, 8);
  EXPECT_DOUBLE_EQ(run.steps[1][0].begin_ms, 8) << "alone, to be seen";
  EXPECT_DOUBLE_EQ(run.steps[1][0].end_ms, 16);
  const double shift = run.steps[1][1].begin_ms - run.steps[0][1].begin_ms;
  EXPECT_NEAR(shift, 5, 1e-6) << "with four regions of seven";
  const double late = run.steps[1][100].begin_ms - run.steps[0][100].begin_ms;
  EXPECT_GE(late, 2) << "with all of them";
  EXPECT_LE(late, 5);
  EXPECT_FALSE(gate->gave_up());
  EXPECT_LE(gate->most_bytes(), 7 * 64);
  EXPECT_GT(run.total(), 1.9);
  EXPECT_NEAR(way->total, run.total(), 0.1);
  EXPECT_FALSE(zico_within({&shape, &shape}, 4 * 64 - 1));
}

// As often as it takes a step of the second meets what the first will need: then they take turns.
TEST(ZicoPlan, WhatIsWrongTooOftenEndsInTurns) {
  const StepShape shape = hill();
  const auto way = zico_within({&shape, &shape}, 5 * 64);
  ASSERT_TRUE(way);
  double clock = 0;
  const auto gate = zico_gate_of(*way, {&shape, &shape}, &clock);
  const auto walk = [&](JobId job, double ms, int64_t from, int64_t to) {
    for (int64_t m = from; m < to; ++m) {
      const auto& asks = gate->asks(job);
      const auto& reports = gate->reports(job);
      if (std::find(asks.begin(), asks.end(), m) != asks.end() && !gate->may_pass(job, m)) return m;
      if (m % 2 == 0) clock += ms;
      if (std::find(reports.begin(), reports.end(), m) != reports.end()) gate->passed(job, m);
    }
    return to;
  };
  const auto step = [&](JobId job) {
    gate->begin_step(job, 0);
    EXPECT_EQ(walk(job, 1, 0, 17), 17);
    gate->end_step(job);
  };
  for (int i = 0; i < 60; ++i) step(0), step(1);
  int wrong = 0;
  for (; !gate->gave_up() && wrong < 10; ++wrong) {
    gate->begin_step(0, 0);
    EXPECT_EQ(walk(0, 1, 0, 6), 6);
    gate->begin_step(1, 0);
    int64_t at = walk(1, 1, 0, 17);
    while (at == 0) clock += 0.5, at = walk(1, 1, 0, 17);
    EXPECT_LT(at, 17) << "the first has not come to its fourth node, as it always had by then";
    EXPECT_EQ(walk(0, 1, 6, 17), 17);
    gate->end_step(0);
    EXPECT_EQ(walk(1, 1, at, 17), 17);
    gate->end_step(1);
  }
  EXPECT_EQ(wrong, 3);
  gate->begin_step(0, 0);
  EXPECT_EQ(walk(0, 1, 0, 4), 4);
  gate->begin_step(1, 0);
  clock += 1000;
  EXPECT_EQ(walk(1, 1, 0, 4), 0) << "in turns";
}

// A clock that goes on by chance beside the schedule.
TEST(ZicoPlan, NobodyTakesWhatAnotherHoldsAndAllComeToTheirEnd) {
  Random random(14);
  ScheduleCounts counts;
  int gave_up = 0, shifted = 0;
  for (int round = 0; round < 1000; ++round) {
    const int64_t jobs = random.between(2, 4);
    std::vector<std::unique_ptr<StepShape>> shapes;
    std::vector<Player> players;
    int64_t pool = 0;
    for (int64_t j = 0; j < jobs; ++j) {
      Player& player = players.emplace_back();
      player.steps_left = random.between(1, 9);
      for (int64_t p = random.between(1, 2); p > 0; --p) {
        shapes.push_back(std::make_unique<StepShape>(random_shape(
            random, {.nodes = random.between(2, 8), .buffers = random.between(1, 10)})));
        player.programs.push_back(shapes.back().get());
        pool = std::max(pool, place_for_zico(*shapes.back(), player.offset.emplace_back()));
      }
    }
    if (random.one_in(2)) pool += 64 * random.below(pool / 64 + 1);
    const int64_t region = round % 2 ? 64 : 1024;
    ZicoPool regions{.programs = {}, .region_bytes = region};
    regions.regions = int32_t((pool + region - 1) / region);
    for (size_t j = 0; j < players.size(); ++j) {
      auto& of_job = regions.programs.emplace_back();
      for (size_t p = 0; p < players[j].programs.size(); ++p) {
        const StepShape& shape = *players[j].programs[p];
        for (size_t i = 0; j % 2 && i < shape.buffers.size(); ++i) {
          int64_t& offset = players[j].offset[p][i];
          offset = pool - offset - shape.buffers[i].bytes;
        }
        of_job.push_back(region_holds(region_program(shape, players[j].offset[p], region)));
      }
    }
    for (int i = 0; i < 10; ++i) {
      double clock = 0;
      const auto gate = zico_gate(regions, &clock);
      Schedule schedule(*gate, players, pool, random);
      schedule.clock(&clock);
      ASSERT_EQ(run_by_chance(schedule, players.size(), random, counts), "")
          << "round " << round << ", schedule " << i;
      EXPECT_LE(gate->most_bytes(), regions.regions * region);
      gave_up += gate->gave_up();
      for (JobId j = 0; j < JobId(players.size()); ++j) shifted += gate->shifted_ms(j) > 0;
    }
  }
  EXPECT_GT(counts.waits, 10000);
  EXPECT_GT(counts.left_within, 500);
  EXPECT_GT(gave_up, 0);
  EXPECT_GT(shifted, 1000);
}

}  // namespace
}  // namespace pal::test
