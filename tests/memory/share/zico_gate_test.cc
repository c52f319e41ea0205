// The scheduler that learns: when it lets steps begin, by hand, and that it keeps to its bytes.
#include "memory/share/zico_gate.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "memory/share/simulate.h"
#include "tests/memory/share/shapes.h"

namespace pal::test {
namespace {

struct Ran {
  SimulatedRun run;
  bool gave_up = false;
  int64_t most = 0;
};

Ran run_zico(const std::vector<SimulatedJob>& jobs, std::vector<std::pair<double, int64_t>> budgets,
             double ms, const ZicoOptions& options = {}) {
  std::vector<ZicoJob> of;
  for (const SimulatedJob& job : jobs) of.push_back(zico_job(*job.programs[0], 64));
  double clock = 0;
  const auto gate = zico_gate(std::move(of), std::move(budgets), &clock, options);
  Ran out;
  out.run = simulate(jobs, *gate, ms, {.clock = &clock});
  out.gave_up = gate->gave_up(), out.most = gate->most_bytes();
  return out;
}

// Feature maps are what lives over the peak; they fill regions in the order in which they are made.
TEST(ZicoGate, RegionsAreOfFeatureMaps) {
  StepShape shape = hill();
  shape.own_bytes = 640;
  shape.buffers.push_back({{4, 7}, 128, {}});   // gone before the peak's node is done
  shape.buffers.push_back({{10, 15}, 64, {}});  // a gradient map
  std::swap(shape.buffers[0], shape.buffers[2]);
  const ZicoJob job = zico_job(shape, 96);
  EXPECT_EQ(job.local_bytes, 640 + 128);
  EXPECT_EQ(job.count(), 3) << "256 bytes";
  ASSERT_EQ(job.regions.uses.size(), 6u);
  std::vector<int64_t> taken, given;
  for (const RegionUse& use : job.regions.uses) {
    for (int32_t r : use.takes) {
      EXPECT_EQ(r, int32_t(taken.size()));
      taken.push_back(use.moment);
    }
    if (!use.gives.empty()) given.push_back(use.moment);
  }
  EXPECT_EQ(taken, (std::vector<int64_t>{0, 2, 6}));
  EXPECT_EQ(given, (std::vector<int64_t>{9, 13, 15})) << "a region goes with the last in it";
}

// Budget 8 regions, of which 4 (60 %) may be used at first, and 5 after ten steps: then the second
// may start when the first is at its fourth node, and nobody waits. Before that it is the fifth.
TEST(ZicoGate, FirstAloneThenShiftedThenWithMore) {
  const StepShape shape = hill();
  const Ran ran = run_zico({{.programs = {&shape}}, {.programs = {&shape}}}, {{0, 8 * 64}}, 200);
  const auto& a = ran.run.steps[0];
  const auto& b = ran.run.steps[1];
  ASSERT_GT(b.size(), 10u);
  const std::vector<double> a_begins{0, 16, 26, 36, 46, 56, 66, 74, 82};
  const std::vector<double> b_begins{8, 21, 31, 41, 51, 61, 70, 78, 86};
  for (size_t i = 0; i < a_begins.size(); ++i) {
    EXPECT_NEAR(a[i].begin_ms, a_begins[i], 1e-6) << i;
    EXPECT_NEAR(b[i].begin_ms, b_begins[i], 1e-6) << i;
    EXPECT_NEAR(a[i].end_ms - a[i].begin_ms, 8, 1e-6) << "only the start of a step is delayed";
    EXPECT_NEAR(b[i].end_ms - b[i].begin_ms, 8, 1e-6);
  }
  EXPECT_EQ(ran.most, 5 * 64);
  EXPECT_FALSE(ran.gave_up);
}

// The part that may be used rises to all that there is, and no further.
TEST(ZicoGate, AllowedIsNoMoreThanThereIs) {
  const StepShape shape = hill();
  const Ran four = run_zico({{.programs = {&shape}}, {.programs = {&shape}}}, {{0, 4 * 64}}, 2400);
  EXPECT_EQ(four.most, 4 * 64);
  EXPECT_FALSE(four.gave_up);
  for (const double rate : four.run.rate) EXPECT_NEAR(rate, 0.8, 1e-2);
}

// The budget falls and rises again; who runs goes on, who begins later waits.
TEST(ZicoGate, ABudgetThatFallsMakesStepsWait) {
  const StepShape shape = hill();
  const Ran ran = run_zico({{.programs = {&shape}}, {.programs = {&shape}}},
                           {{0, 5 * 64}, {400, 4 * 64}, {800, 5 * 64}}, 1200, {.first_part = 1});
  double gaps[3] = {0, 0, 0};
  for (const auto& steps : ran.run.steps) {
    for (size_t i = 1; i < steps.size(); ++i) {
      const double begin = steps[i].begin_ms;
      const double gap = begin - steps[i - 1].end_ms;
      if (std::abs(begin - 400) < 30 || std::abs(begin - 800) < 30 || begin < 40) continue;
      double& most = gaps[begin < 400 ? 0 : begin < 800 ? 1 : 2];
      most = std::max(most, gap);
    }
  }
  EXPECT_NEAR(gaps[0], 0, 1e-6);
  EXPECT_NEAR(gaps[1], 2, 1e-6);
  EXPECT_NEAR(gaps[2], 0, 1e-6);
  EXPECT_EQ(ran.most, 5 * 64);
}

// Two hills in 7 regions, of which all may be used, after a step alone of each. begin_both(): the
// first has begun again and holds three; the second may begin, since it will take as long as it
// did.
class TwoHills : public testing::Test {
 protected:
  void SetUp() override {
    gate = zico_gate({zico_job(shape, 64), zico_job(shape, 64)}, {{0, 7 * 64}}, &clock,
                     {.first_part = 1});
    for (JobId job = 0; job < 2; ++job) {
      gate->begin_step(job, 0);
      for (int64_t moment = 0; moment < 16; ++moment) {
        if (moment % 2 == 0 && moment < 8) {
          EXPECT_TRUE(take(job, moment / 2));
        }
        if (moment % 2 == 1) ++clock;
        if (moment % 2 == 1 && moment > 8) gate->passed(job, moment);
      }
      gate->end_step(job);
    }
  }
  void begin_both() {
    gate->begin_step(0, 0);
    EXPECT_TRUE(take(0, 0));
    gate->begin_step(1, 0);
    EXPECT_FALSE(take(1, 0)) << "both would hold four at once";
    ++clock;
    EXPECT_TRUE(take(0, 1));
    ++clock;
    EXPECT_TRUE(take(0, 2));
    EXPECT_TRUE(take(1, 0));
    EXPECT_TRUE(take(1, 1)) << "faster than it was";
    EXPECT_TRUE(take(1, 2));
  }
  bool take(JobId job, int64_t node) { return gate->may_pass(job, 2 * node); }
  void end(JobId job) {
    for (int64_t moment = 9; moment < 16; moment += 2) gate->passed(job, moment);
    gate->end_step(job);
  }

  const StepShape shape = hill();
  double clock = 0;
  std::unique_ptr<ZicoGate> gate;
};

// The first has its fourth when the second asks for one too many: it will be given back.
TEST_F(TwoHills, ALaterStepWaitsForAFreeRegion) {
  begin_both();
  EXPECT_TRUE(take(0, 3));
  EXPECT_FALSE(take(1, 3));
  EXPECT_FALSE(gate->gave_up());
  const auto copy = gate->clone();
  gate->passed(0, 9);
  EXPECT_TRUE(take(1, 3));
  EXPECT_FALSE(copy->may_pass(1, 6));
  copy->leave(0);
  EXPECT_TRUE(copy->may_pass(1, 6)) << "who leaves gives all back";
  EXPECT_EQ(gate->most_bytes(), 7 * 64);
  EXPECT_FALSE(gate->gave_up());
}

// The second has taken what the first needs, which waits for nobody.
TEST_F(TwoHills, WhatWasSeenAndIsWrongEndsInTurns) {
  begin_both();
  EXPECT_TRUE(take(1, 3));
  EXPECT_FALSE(gate->gave_up());
  EXPECT_TRUE(take(0, 3));
  EXPECT_TRUE(gate->gave_up());
  EXPECT_EQ(gate->most_bytes(), 8 * 64);
  end(1), gate->begin_step(1, 0);
  EXPECT_FALSE(take(1, 0));
  end(0), gate->begin_step(0, 0);
  EXPECT_FALSE(take(0, 0)) << "the other has asked before";
  EXPECT_TRUE(take(1, 0));
  clock += 100;
  EXPECT_FALSE(take(0, 0));
  end(1);
  EXPECT_TRUE(take(0, 0));
}

// A step of the first takes twice as long; in its next one that is what is expected.
TEST_F(TwoHills, WhatIsSeenIsRenewedByEachStep) {
  for (int step = 0; step < 2; ++step) {
    gate->begin_step(0, 0);
    for (int64_t node = 0; node < 3; ++node) {
      EXPECT_TRUE(take(0, node));
      if (node < 2) clock += 2;
    }
    if (step == 1) break;
    clock += 2;
    EXPECT_TRUE(take(0, 3));
    clock += 2;
    for (int64_t moment = 9; moment < 16; moment += 2) clock += 2, gate->passed(0, moment);
    gate->end_step(0);
  }
  gate->begin_step(1, 0);
  EXPECT_FALSE(take(1, 0)) << "the first will hold four when the second does";
  clock += 2;
  EXPECT_TRUE(take(0, 3));
  EXPECT_FALSE(take(1, 0));
  clock += 1;
  EXPECT_TRUE(take(1, 0));
}

// The first is late within its step, and so will be later on.
TEST_F(TwoHills, WhoIsLateStaysLate) {
  gate->begin_step(0, 0);
  EXPECT_TRUE(take(0, 0));
  clock += 4;
  EXPECT_TRUE(take(0, 1)) << "3 ms late";
  gate->begin_step(1, 0);
  EXPECT_FALSE(take(1, 0));
  clock += 1;
  EXPECT_TRUE(take(0, 2));
  EXPECT_TRUE(take(1, 0));
}

TEST(ZicoGate, AJobThatDoesNotFitIsRefused) {
  StepShape shape = hill();
  shape.own_bytes = 64;
  double clock = 0;
  EXPECT_THROW(zico_gate({zico_job(shape, 64), zico_job(shape, 64)}, {{0, 6 * 64 - 1}}, &clock),
               ProgramError);
  EXPECT_NE(zico_gate({zico_job(shape, 64), zico_job(shape, 64)}, {{0, 6 * 64}}, &clock), nullptr);
}

// Counts regions as the gate lets jobs take them, from outside.
class Watched final : public PoolGate {
 public:
  Watched(ZicoGate& gate, std::vector<ZicoJob> jobs, int64_t budget)
      : gate_(gate), jobs_(std::move(jobs)), held_(jobs_.size(), 0), budget_(budget) {}
  void begin_step(JobId job, size_t program) override { gate_.begin_step(job, program); }
  void end_step(JobId job) override {
    EXPECT_EQ(held_[size_t(job)], 0) << "it gave all back";
    gate_.end_step(job);
  }
  const std::vector<int64_t>& asks(JobId job) const override { return gate_.asks(job); }
  const std::vector<int64_t>& reports(JobId job) const override { return gate_.reports(job); }
  bool may_pass(JobId job, int64_t moment) override {
    if (!gate_.may_pass(job, moment)) return false;
    for (const RegionUse& use : jobs_[size_t(job)].regions.uses) {
      if (use.moment == moment) held_[size_t(job)] += int64_t(use.takes.size());
    }
    int64_t bytes = 0;
    for (size_t j = 0; j < jobs_.size(); ++j) {
      bytes += jobs_[j].local_bytes + held_[j] * jobs_[j].region_bytes;
    }
    EXPECT_TRUE(gate_.gave_up() || bytes <= budget_) << bytes << " of " << budget_;
    return true;
  }
  void passed(JobId job, int64_t moment) override {
    for (const RegionUse& use : jobs_[size_t(job)].regions.uses) {
      if (use.moment == moment) held_[size_t(job)] -= int64_t(use.gives.size());
    }
    gate_.passed(job, moment);
  }
  void leave(JobId job) override { gate_.leave(job); }
  std::unique_ptr<PoolGate> clone() const override { return nullptr; }

 private:
  ZicoGate& gate_;
  std::vector<ZicoJob> jobs_;
  std::vector<int64_t> held_;
  int64_t budget_;
};

TEST(ZicoGate, BytesAreKeptAndNobodyStarves) {
  Random random(11);
  int gave_up = 0, shared = 0;
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE(round);
    std::vector<StepShape> shapes;
    double round_ms = 0;
    for (int64_t j = random.between(2, 4); j > 0; --j) {
      shapes.push_back(random_shape(
          random, {.nodes = random.between(3, 12), .buffers = 12, .bytes = 1024, .ticks = 1000}));
      round_ms += shapes.back().ms();
    }
    std::vector<SimulatedJob> jobs;
    std::vector<ZicoJob> of;
    int64_t local = 0, most = 0, sum = 0;
    for (const StepShape& shape : shapes) {
      jobs.push_back({.programs = {&shape}, .speed = 0.5 + double(random.below(3)) / 2});
      of.push_back(zico_job(shape, 512));
      const int64_t bytes = of.back().count() * 512;
      local += of.back().local_bytes, most = std::max(most, bytes), sum += bytes;
    }
    const int64_t budget = local + most + random.below(sum - most + 1);
    double clock = 0;
    const auto gate = zico_gate(of, {{0, budget}}, &clock);
    Watched watched(*gate, of, budget);
    const SimulatedRun run = simulate(jobs, watched, 60 * round_ms, {.clock = &clock});
    EXPECT_FALSE(run.stuck);
    for (const auto& steps : run.steps) EXPECT_GT(steps.size(), shapes.size() == 2 ? 10u : 0u);
    gave_up += gate->gave_up();
    if (!gate->gave_up()) {
      EXPECT_LE(gate->most_bytes(), budget);
      shared += run.total() > 1.1;
    }
  }
  EXPECT_GT(gave_up, 0);
  EXPECT_GT(shared, 30);
}

}  // namespace
}  // namespace pal::test
