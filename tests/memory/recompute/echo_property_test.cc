// Echo on random steps and on shipped ones: more time never costs bytes, what fits a budget is
// found, and more budget is never slower.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "bench/made_up.h"
#include "memory/price/predict.h"
#include "memory/recompute/echo.h"
#include "memory/recompute/recompute.h"
#include "memory/storages/lifetimes.h"
#include "tests/support/random_network.h"
#include "train/loop/task.h"

namespace pal::test {
namespace {

constexpr double kOverheads[] = {0,    0.01, 0.02, 0.03, 0.045, 0.06, 0.08, 0.09,
                                 0.12, 0.15, 0.2,  0.3,  0.5,   1,    1e9};

int64_t footprint(const Program& p) { return peak_bytes(p); }

Program random_step(uint64_t seed) {
  const bool wide = seed % 3 == 0;
  return random_network(
      seed, {.layers = 6 + int(seed % 9), .batch = wide ? 48 : 3, .width = wide ? 80 : 6});
}

// How often more time saved bytes.
int expect_no_rise(const Program& step, const std::string& where) {
  int falls = 0;
  for (const bool fuse : {false, true}) {
    int64_t before = footprint(step);
    for (const double overhead : kOverheads) {
      const Program out = recompute(step, Recompute::echo, footprint, nullptr,
                                    {.overhead = overhead}, {.fuse = fuse});
      const int64_t bytes = footprint(out);
      EXPECT_LE(bytes, before) << where << (fuse ? ", fused, " : ", ") << overhead;
      falls += bytes < before;
      before = bytes;
    }
  }
  return falls;
}

TEST(EchoProperty, MoreTimeNeverCostsBytes) {
  int falls = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    falls += expect_no_rise(random_step(seed), "seed " + std::to_string(seed));
  }
  EXPECT_GT(falls, 300);
}

// These rose before candidates were the same for every overhead.
TEST(EchoProperty, MoreTimeNeverCostsBytesOfShippedSteps) {
  for (const char* name : {"resnet20_cifar10", "resnet50_imagenet", "mobilenet_v2_imagenet",
                           "zoo_small", "nmt_multi30k", "transformer_multi30k"}) {
    const Config config = with_made_up_data(name, {});
    const auto task = make_task(config);
    const Program step =
        record_plan_step(*task, config, task->bucket_lengths(task->bucket_count() - 1));
    EXPECT_GT(expect_no_rise(step, name), 3) << name;
  }
}

// No time is allowed, so whatever is recomputed is for the budget.
TEST(EchoProperty, WhatFitsABudgetIsFoundAndMoreBudgetIsNeverSlower) {
  int fitted = 0, slower = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Program step = random_step(seed);
    auto within = [&](double overhead, std::optional<int64_t> budget) {
      return recompute(step, Recompute::echo, footprint, nullptr, {.overhead = overhead},
                       {.budget = budget});
    };
    const int64_t most = footprint(step), least = footprint(within(1e9, {}));
    double before = 0;  // milliseconds
    for (int part = 10; part >= 0; --part) {
      const int64_t budget = (least + (most - least) * part / 10) / 99 * 100 + 200;
      const Program out = within(0, budget);
      ASSERT_LE(footprint(out), budget) << "seed " << seed << ", part " << part;
      const double ms = predict(out, kEchoDevice).step_ms;
      ASSERT_GE(ms, before * (1 - 1e-9)) << "seed " << seed << ", part " << part;
      fitted += footprint(out)<most, slower += ms> before && before > 0;
      before = ms;
    }
  }
  EXPECT_GT(fitted, 300);
  EXPECT_GT(slower, 100);
}

}  // namespace
}  // namespace pal::test
