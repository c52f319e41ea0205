// Dropout: the numbers are Philox's, both forms give the same bits, bits do for the mask, the rate.
#include "ops/elementwise/dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "autograd/differentiate.h"
#include "core/error.h"
#include "core/scalars.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/transfers.h"
#include "tests/support/eval.h"

namespace pal {
namespace {

void set_scalars(test::Evaluator& eval, const StepScalars& scalars) {
  std::memcpy(eval.data(eval.find("scalars")).data(), &scalars, sizeof scalars);
}
Val scalars_input(Builder& builder) {
  return builder.input("scalars", scalars_spec(), Space::host);
}

TEST(Dropout, MaskIsDrawnByElement) {
  Builder builder;
  builder.output("mask", dropout_mask(step_scalars(scalars_input(builder)), {{3, 337}}, 0.3f, 7));
  StepScalars scalars{.step = 5, .micro_batch = 2, .seed_low = 11, .seed_high = 13};
  for (int threads : {1, 2}) {
    test::Evaluator eval(builder.program(), {.threads = threads});
    set_scalars(eval, scalars);
    eval.run();
    const std::vector<float> mask = eval.floats("mask");
    for (size_t i = 0; i < mask.size(); ++i) {
      const uint32_t bits = draw(scalars.key(7), i / 4).x[i % 4];
      EXPECT_EQ(mask[i], uniform01(bits) >= 0.3f ? 1 / (1 - 0.3f) : 0.0f) << i;
    }
  }
}

TEST(Dropout, TheLeastNumberTellsWhatIsKept) {
  for (const float p : {1e-7f, 0.1f, 0.2f, 0.25f, 0.3f, 0.5f, 0.75f, 0.9f, 1 - 0x1p-24f}) {
    const uint32_t least = dropout_least(p);
    for (const uint32_t bits : {least, least + 255, least - 1, least - 256, 0u, ~0u}) {
      EXPECT_EQ(bits >= least, dropout_factor(bits, p, 1) > 0) << p << " " << bits;
    }
  }
}

// Mask of f32, mask of bits, replayed: outputs and gradients have the same bits, in every type.
TEST(Dropout, AllFormsAgree) {
  for (DType type : {DType::f32, DType::bf16, DType::f16}) {
    Builder builder;
    Val x = builder.input("x", {{131, 257}, type}), scalars = scalars_input(builder);
    Val mask = dropout_mask(scalars, x.spec(), 0.4f, 9);
    const Val forms[] = {dropout_apply(x, mask, 0.4f), dropout_apply(x, to_bits(mask, 0), 0.4f),
                         dropout(x, scalars, 0.4f, 9)};
    for (int i = 0; i < 3; ++i) {
      builder.output("y" + std::to_string(i), forms[i]);
      Val loss = sum_all(forms[i]);
      builder.output("dx" + std::to_string(i), differentiate(builder, loss, {x})[0]);
    }
    test::Evaluator eval(builder.take(), {.threads = 2});
    set_scalars(eval, {.seed_low = 3});
    std::vector<float> values(131 * 257);
    for (size_t i = 0; i < values.size(); ++i) values[i] = float(i % 251) - 125;
    eval.set("x", values);
    eval.run();
    for (const char* name : {"y", "dx"}) {
      const auto expected = eval.bytes(eval.find(name + std::string("0")));
      EXPECT_EQ(expected, eval.bytes(eval.find(name + std::string("1")))) << to_string(type);
      EXPECT_EQ(expected, eval.bytes(eval.find(name + std::string("2")))) << to_string(type);
    }
  }
}

TEST(Dropout, KeepsTheRateAndDiffersBetweenStreams) {
  Builder builder;
  Val scalars = scalars_input(builder);
  builder.output("a", dropout_mask(scalars, {{100000}}, 0.2f));
  builder.output("b", dropout_mask(scalars, {{100000}}, 0.2f));
  test::Evaluator eval(builder.take());
  set_scalars(eval, {.seed_low = 1});
  eval.run();
  const auto a = eval.floats("a"), b = eval.floats("b");
  int kept = 0, both = 0;
  for (size_t i = 0; i < a.size(); ++i) kept += a[i] > 0, both += a[i] > 0 && b[i] > 0;
  EXPECT_NEAR(kept, 80000, 6 * std::sqrt(100000 * 0.8 * 0.2));
  EXPECT_NEAR(both, 64000, 6 * std::sqrt(100000 * 0.64 * 0.36));
}

TEST(Dropout, NothingToDropAndErrors) {
  Builder builder;
  Val x = builder.input("x", {{4}}), scalars = scalars_input(builder);
  EXPECT_EQ(dropout(x, scalars, 0).id, x.id);
  EXPECT_EQ(dropout_apply(x, x, 0).id, x.id);
  EXPECT_THROW(dropout(x, scalars, 1), ProgramError);
  EXPECT_THROW(dropout_mask(scalars, {{4}}, -0.1f), ProgramError);
  EXPECT_THROW(dropout(x, x, 0.5f), ProgramError);
}

// A dropped infinity or NaN is zero: 0 times it would not be.
TEST(Dropout, DropsWhatIsNotFinite) {
  Builder builder;
  Val x = builder.input("x", {{2}});
  builder.output("y", dropout_apply(x, builder.input("mask", {{2}}), 0.5f));
  test::Evaluator eval(builder.take());
  eval.set("x", {INFINITY, NAN});
  eval.set("mask", {0, 0});
  eval.run();
  EXPECT_EQ(eval.floats("y"), (std::vector<float>{0, 0}));
}

}  // namespace
}  // namespace pal
