// What tables of measured times run.
#include "train/papers/measured_step.h"

#include <gtest/gtest.h>

#include "core/builder.h"
#include "ops/sums/reduce.h"

namespace pal {
namespace {

// The sum of what a step is fed, and of weights that are drawn.
Program sums_of_all() {
  Builder b;
  const Init drawn{Init::Kind::normal, 1.0f};
  b.output("fed", sum_all(b.input("x", {{64}})));
  b.output("drawn", sum_all(b.state("w", {{64}}, Role::weight, drawn)));
  return b.take();
}

TEST(MeasuredStep, WhatIsTimedIsTheStep) {
  MeasuredStep timed(sums_of_all(), {}), traced(sums_of_all(), {}, &timed);
  timed.run_ms(), traced.traced_run();
  for (const char* name : {"fed", "drawn"}) {
    EXPECT_NE(*timed.output(name), 0) << name;
    EXPECT_EQ(*timed.output(name), *traced.output(name)) << name;
  }
}

}  // namespace
}  // namespace pal
