// Learning-rate schedules at hand-computed points, and what validations do to plateau.
#include "train/loop/learning_rate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace pal {
namespace {

TrainConfig train(const std::string& options) {
  return parse_config("model: {type: nmt}\ntrain: {steps: 100, lr: 0.8, " + options + "}\n",
                      "test.yaml")
      .train;
}

TEST(Schedule, WarmUpRisesLinearlyUnderEverySchedule) {
  for (const char* kind : {"constant", "inverse_sqrt", "step, lr_decay_every: 100",
                           "cosine, schedule_steps: 100", "plateau"}) {
    const TrainConfig t = train(std::string("warmup_steps: 4, lr_min: 0.3, schedule: ") + kind);
    EXPECT_DOUBLE_EQ(learning_rate(t, 0), 0.2) << kind;  // below lr_min: a warm-up starts low
    EXPECT_DOUBLE_EQ(learning_rate(t, 1), 0.4) << kind;
    EXPECT_DOUBLE_EQ(learning_rate(t, 3), 0.8) << kind;
  }
}

TEST(Schedule, ConstantStays) {
  EXPECT_DOUBLE_EQ(learning_rate(train("schedule: constant"), 0), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(train("schedule: constant"), 1'000'000), 0.8);
}

TEST(Schedule, InverseSquareRootFallsFromTheWarmUpsEnd) {
  const TrainConfig t = train("schedule: inverse_sqrt, warmup_steps: 4, lr_min: 0.1");
  EXPECT_DOUBLE_EQ(learning_rate(t, 4), 0.8 * std::sqrt(4.0 / 5));
  EXPECT_DOUBLE_EQ(learning_rate(t, 15), 0.4);  // the 16th update: sqrt(4/16)
  EXPECT_DOUBLE_EQ(learning_rate(t, 100'000), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(train("schedule: inverse_sqrt"), 3), 0.4);  // no warm-up
}

// Vaswani et al. 2017, equation 3: d^-0.5 min(s^-0.5, s w^-1.5), whose peak, at step w, is lr here.
TEST(Schedule, InverseSquareRootIsTheTransformers) {
  const double d = 512, w = 4000;
  TrainConfig t = train("schedule: inverse_sqrt, warmup_steps: 4000");
  t.lr = 1 / std::sqrt(d * w);
  for (const int64_t s : {1, 2, 3999, 4000, 4001, 4002, 100'000}) {
    const double x = double(s);
    const double paper = std::min(1 / std::sqrt(x), x * std::pow(w, -1.5)) / std::sqrt(d);
    EXPECT_NEAR(learning_rate(t, s - 1), paper, 1e-12 * paper) << "step " << s;
  }
}

TEST(Schedule, StepsFallWhereTheyAreDue) {
  // Luong 2015 as configured: halved four times from update 8000 on.
  const TrainConfig t = train(
      "schedule: step, lr_decay_start: 8000, lr_decay_every: 1000, "
      "lr_decay_times: 4");
  EXPECT_DOUBLE_EQ(learning_rate(t, 7999), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(t, 8000), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(t, 8999), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(t, 9000), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(t, 11000), 0.05);
  EXPECT_DOUBLE_EQ(learning_rate(t, 99000), 0.05);
  const TrainConfig plain = train("schedule: step, lr_decay_every: 10, lr_factor: 0.1");
  EXPECT_DOUBLE_EQ(learning_rate(plain, 9), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(plain, 10), 0.08);
  EXPECT_DOUBLE_EQ(learning_rate(plain, 20), 0.008);
}

TEST(Schedule, CosineEndsAtItsFloorAndStaysThere) {
  const TrainConfig t = train(
      "schedule: cosine, warmup_steps: 10, schedule_steps: 110, "
      "lr_min: 0.2");
  EXPECT_DOUBLE_EQ(learning_rate(t, 10), 0.8);
  EXPECT_NEAR(learning_rate(t, 60), 0.5, 1e-12);
  EXPECT_NEAR(learning_rate(t, 35), 0.2 + 0.3 * (1 + std::sqrt(0.5)), 1e-12);
  EXPECT_DOUBLE_EQ(learning_rate(t, 110), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(t, 500), 0.2);
}

TEST(Schedule, PlateauHalvesAfterValidationsWithoutABest) {
  const TrainConfig t = train("schedule: plateau, lr_patience: 2, lr_min: 0.15");
  Plateau p;
  auto rate = [&](bool improved) {
    p.observe(t, improved);
    return learning_rate(t, 50, p);
  };
  EXPECT_DOUBLE_EQ(rate(true), 0.8);
  EXPECT_DOUBLE_EQ(rate(false), 0.8);
  EXPECT_DOUBLE_EQ(rate(true), 0.8);  // a best in between: counted anew
  EXPECT_DOUBLE_EQ(rate(false), 0.8);
  EXPECT_DOUBLE_EQ(rate(false), 0.4);
  EXPECT_DOUBLE_EQ(rate(false), 0.4);  // two more before the next
  EXPECT_DOUBLE_EQ(rate(false), 0.2);
  EXPECT_EQ(p, (Plateau{.stale = 4, .waited = 0, .decays = 2}));
  rate(false);
  EXPECT_DOUBLE_EQ(rate(false), 0.15);  // the floor
  EXPECT_DOUBLE_EQ(rate(true), 0.15);   // a best does not raise it again
  EXPECT_EQ(p.stale, 0);
}

TEST(Schedule, OtherSchedulesOnlyCountForPatience) {
  const TrainConfig t = train("schedule: constant, lr_patience: 1");
  Plateau p;
  p.observe(t, false), p.observe(t, false);
  EXPECT_EQ(p.stale, 2);
  EXPECT_EQ(p.decays, 0);
  const TrainConfig limited = train("schedule: plateau, lr_patience: 1, lr_decay_times: 1");
  Plateau q;
  q.observe(limited, false), q.observe(limited, false);
  EXPECT_EQ(q.decays, 1);
}

TEST(Schedule, WhatIsMissingIsSaid) {
  auto fault = [](const std::string& options) -> std::string {
    try {
      train(options);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_NE(fault("schedule: step").find("train.lr_decay_every"), std::string::npos);
  EXPECT_NE(fault("schedule: cosine").find("train.schedule_steps"), std::string::npos);
  EXPECT_NE(fault("schedule: cosine, schedule_steps: 5, warmup_steps: 5").find("warmup_steps"),
            std::string::npos);
  EXPECT_NE(fault("lr_min: 0.9").find("train.lr_min"), std::string::npos);
  EXPECT_NE(fault("schedule: linear").find("inverse_sqrt"), std::string::npos);
  EXPECT_EQ(fault("schedule: cosine, schedule_steps: 6, warmup_steps: 5"), "accepted");
}

}  // namespace
}  // namespace pal
