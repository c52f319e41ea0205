// Updates of a state, with and without a gate.
#include "ops/tensors/state.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/builder.h"
#include "core/error.h"
#include "core/scalars.h"
#include "ops/kernels/gate.h"
#include "ops/tensors/state_rows.h"
#include "tests/support/eval.h"

namespace pal {
namespace {

using Floats = std::vector<float>;

TEST(State, UpdatesCarryState) {
  Builder builder;
  Val x = builder.input("x", {{2}});
  Val copy = builder.state("copy", {{2}, DType::bf16}, Role::weight);
  Val mean = builder.state("mean", {{2}}, Role::statistic);
  assign(copy, x);
  moving_average(mean, x, 0.25f);
  test::Evaluator eval(builder.take());
  eval.set("x", {1.00390625f, -8});
  eval.set("copy", {9, 9});
  eval.set("mean", {5, 0});
  eval.run();
  EXPECT_EQ(eval.floats("copy"), (Floats{1, -8}));
  EXPECT_EQ(eval.floats("mean"), (Floats{5 + 0.25f * (1.00390625f - 5), -2}));
}

// The row of a micro-batch is its number among those of its rank.
TEST(State, PutsARowByTheMicroBatch) {
  for (const int32_t number : {0, 1, 2, 5, 7}) {
    Builder builder;
    const Val scalars = builder.input("scalars", scalars_spec());
    put_row(builder.state("rows", {{3, 2}}, Role::statistic), builder.input("x", {{2}}), scalars);
    test::Evaluator eval(builder.take());
    eval.as<StepScalars>(eval.find("scalars"))->micro_batch = number;
    eval.set("x", {8, 9});
    eval.set("rows", {1, 1, 2, 2, 3, 3});
    eval.run();
    Floats want{1, 1, 2, 2, 3, 3};
    want[size_t(number % 3 * 2)] = 8, want[size_t(number % 3 * 2 + 1)] = 9;
    EXPECT_EQ(eval.floats("rows"), want) << number;
  }
}

TEST(State, PutsARowByItsNumber) {
  Builder builder;
  put_row(builder.state("rows", {{3, 2}}, Role::statistic), builder.input("x", {{2}}),
          builder.input("number", {{1}, DType::i32}));
  test::Evaluator eval(builder.take());
  eval.set("number", {2}), eval.set("x", {8, 9}), eval.set("rows", {1, 1, 2, 2, 3, 3});
  eval.run();
  EXPECT_EQ(eval.floats("rows"), (Floats{1, 1, 2, 2, 8, 9}));
}

// One after the other, and only where the gate is open.
TEST(State, MovesByRowAfterRow) {
  for (const float apply : {0.0f, 1.0f}) {
    Builder builder;
    const Val gate = builder.input("gate", gate_spec());
    moving_averages(builder.state("mean", {{1}}, Role::statistic), builder.input("rows", {{2, 1}}),
                    0.5f, gate);
    test::Evaluator eval(builder.take());
    eval.set("rows", {8, 2});
    eval.set("gate", {1, apply, 0, 0});
    eval.set("mean", {5});
    eval.run();
    EXPECT_EQ(eval.floats("mean")[0], apply ? 4.25f : 5);  // 5 -> 6.5 -> 4.25, not 5 -> 3.5 -> 5.75
  }
}

TEST(State, AShutGateKeepsState) {
  for (float apply : {0.0f, 1.0f}) {
    Builder builder;
    Val x = builder.input("x", {{2}}), gate = builder.input("gate", gate_spec());
    assign(builder.state("copy", {{2}}, Role::weight), x, gate);
    moving_average(builder.state("mean", {{2}}, Role::statistic), x, 0.5f, gate);
    test::Evaluator eval(builder.take());
    eval.set("x", {2, NAN});
    eval.set("gate", {1, apply, 0, 0});
    eval.set("copy", {9, 8});
    eval.set("mean", {4, 6});
    eval.run();
    EXPECT_EQ(eval.floats("copy")[0], apply ? 2 : 9);
    EXPECT_EQ(eval.floats("mean")[0], apply ? 3 : 4);
    EXPECT_EQ(std::isnan(eval.floats("copy")[1]), apply != 0);
    EXPECT_EQ(std::isnan(eval.floats("mean")[1]), apply != 0);
  }
}

TEST(PutRow, TakesThreeOperands) {
  const TensorSpec old{{4, 3}}, row{{3}};
  const Specs three{old, row, scalars_spec()}, four{old, row, scalars_spec(), row}, two{old, row};
  EXPECT_EQ(infer_specs(put_row_op, three, {}), Specs{old});
  EXPECT_THROW(infer_specs(put_row_op, four, {}), Error);
  EXPECT_THROW(infer_specs(put_row_op, two, {}), Error);
}

}  // namespace
}  // namespace pal
