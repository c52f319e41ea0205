// Several programs of each job on one circle: no byte has two owners, whatever each runs, and
// somebody can always go on.
#include "memory/share/programs_gate.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "memory/share/corun_plan.h"
#include "tests/memory/share/schedule.h"

namespace pal::test {
namespace {

// With up to three others for each job.
RandomCircle circle_of_programs(Random& random, size_t jobs) {
  RandomCircle r = random_circle(random, jobs, 3);
  for (JobOnCircle& job : r.circle.jobs) {
    for (int64_t tries = random.below(12); tries > 0 && job.others.size() < 3; --tries) {
      StepShape other = random_shape(random, {.nodes = random.between(2, 10),
                                              .buffers = random.between(1, 12),
                                              .bytes = random.one_in(2) ? 64 : 1024});
      if (other.ticks() > job.lasts) continue;
      r.shapes.push_back(std::make_unique<StepShape>(std::move(other)));
      job.others.push_back(r.shapes.back().get());
    }
  }
  return r;
}

std::vector<Player> players_with_programs(const Circle& circle, const PoolPlacement& placement,
                                          Random& random) {
  std::vector<Player> players;
  for (size_t j = 0; j < circle.jobs.size(); ++j) {
    const JobOnCircle& job = circle.jobs[j];
    Player& player = players.emplace_back();
    player.steps_left = job.steps * random.between(1, 4) + random.below(2);
    for (size_t p = 0; p < job.programs(); ++p) {
      player.programs.push_back(&job.program(p));
      player.offset.push_back(p == 0 ? placement.offset[j] : placement.others[j][p - 1]);
    }
  }
  return players;
}

TEST(ProgramsGate, NobodyTakesWhatAnotherHoldsAndAllComeToTheirEnd) {
  Random random(21);
  ScheduleCounts counts;
  size_t others = 0;
  for (int round = 0; round < 1000; ++round) {
    const RandomCircle r = circle_of_programs(random, size_t(random.between(2, 4)));
    for (const JobOnCircle& job : r.circle.jobs) others += job.others.size();
    const PoolPlacement placement = place_on(r.circle);
    check_placement(r.circle, placement);
    const bool paced = round % 4 == 0;
    const ProgramWaits waits =
        program_waits_of(r.circle, placement, paced, round % 3 ? 64 : placement.height);
    ASSERT_NO_THROW(check_waits(r.circle, waits)) << "round " << round << (paced ? " paced" : "");
    for (int i = 0; i < 10; ++i) {
      const auto gate = programs_gate(r.circle, waits);
      Schedule schedule(*gate, players_with_programs(r.circle, placement, random), placement.height,
                        random);
      ASSERT_EQ(run_by_chance(schedule, r.circle.jobs.size(), random, counts), "")
          << "round " << round << ", schedule " << i;
    }
  }
  EXPECT_GT(others, 2000u);
  EXPECT_GT(counts.waits, 10000);
  EXPECT_GT(counts.left_within, 1000);
  EXPECT_GT(counts.late, 1000);
}

// Most waits show when they are left out, though schedules are drawn by chance.
TEST(ProgramsGate, AWaitThatIsLeftOutIsNoticed) {
  Random random(22);
  int left_out = 0, noticed = 0;
  for (int round = 0; round < 60; ++round) {
    const RandomCircle r = circle_of_programs(random, 2);
    const PoolPlacement placement = place_on(r.circle);
    ProgramWaits waits = program_waits_of(r.circle, placement);
    for (auto& program : waits[1]) {
      for (auto& step : program) left_out += int(step.size()), step.clear();
    }
    bool wrong = false;
    for (int i = 0; i < 40 && !wrong; ++i) {
      const auto gate = programs_gate(r.circle, waits);
      Schedule schedule(*gate, players_with_programs(r.circle, placement, random), placement.height,
                        random);
      ScheduleCounts counts;
      wrong = !run_by_chance(schedule, 2, random, counts).empty();
    }
    noticed += wrong;
  }
  EXPECT_GT(left_out, 200);
  EXPECT_GT(noticed, 40);
}

TEST(ProgramsGate, AWaitForWhatComesLaterIsRefused) {
  const StepShape shape = hill();
  const Circle circle{2 * shape.ticks(),
                      {{&shape, 1, 0, shape.ticks(), {&shape}}, {&shape, 1, 0, shape.ticks()}}};
  const auto waits_for = [&](int32_t step, std::vector<int64_t> moments) {
    ProgramWaits waits{{{{}}, {{}}}, {{{}}}};
    waits[1][0][0].push_back(
        {.moment = 6, .other = 0, .other_step = step, .other_moment = moments});
    return waits;
  };
  EXPECT_NO_THROW(check_waits(circle, waits_for(0, {5, -1})));
  EXPECT_THROW(check_waits(circle, waits_for(0, {5, 9})), ProgramError);
  EXPECT_NO_THROW(check_waits(circle, waits_for(-1, {15, 15})));
  EXPECT_THROW(check_waits(circle, waits_for(1, {-1, -1})), ProgramError);
  const auto gate = programs_gate(circle, waits_for(0, {5, -1}));
  EXPECT_THROW(gate->begin_step(1, 1), ProgramError);
  gate->begin_step(1, 0);
  EXPECT_FALSE(gate->may_pass(1, 6)) << "nobody knows what the first will run";
  gate->begin_step(0, 1);
  EXPECT_TRUE(gate->may_pass(1, 6)) << "its second program has nothing there";
}

// A circle of the largest steps takes in the others that its pool has room for.
TEST(ProgramsGate, ProgramsAreAddedToACircleAsFarAsTheyFit) {
  Random random(23);
  int all = 0, some = 0, none = 0;
  for (int round = 0; round < 60; ++round) {
    const RandomCircle r = circle_of_programs(random, 2);
    CorunWay way{.kind = CorunWay::Kind::circle};
    way.circle = r.circle;
    std::vector<std::vector<const StepShape*>> others;
    size_t given = 0;
    for (JobOnCircle& job : way.circle.jobs) {
      given += job.others.size();
      others.push_back(std::exchange(job.others, {}));
    }
    way.placement = place_on(way.circle);
    way.pool_bytes = way.placement.height;
    way.waits = waits_of(way.circle, way.placement);
    const int64_t pool = way.pool_bytes + 64 * random.below(1 + way.pool_bytes / 128);
    add_programs(way, others, pool);
    EXPECT_LE(way.pool_bytes, pool);
    size_t on = 0;
    for (const JobOnCircle& job : way.circle.jobs) on += job.others.size();
    if (given > 0) (on == given ? all : on > 0 ? some : none)++;
    std::vector<const StepShape*> shapes;
    for (const JobOnCircle& job : way.circle.jobs) shapes.push_back(job.shape);
    for (int i = 0; i < 5; ++i) {
      const auto gate = way.gate(shapes);
      Schedule schedule(*gate, players_with_programs(way.circle, way.placement, random),
                        way.pool_bytes, random);
      ScheduleCounts counts;
      ASSERT_EQ(run_by_chance(schedule, 2, random, counts), "") << "round " << round;
    }
  }
  EXPECT_GT(all, 5);
  EXPECT_GT(some, 5);
  EXPECT_GT(none, 2);
}

}  // namespace
}  // namespace pal::test
