// NaNs of whole steps on a GPU: the node that makes one, and the step, looked at or not.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "autograd/differentiate.h"
#include "core/builder.h"
#include "core/error.h"
#include "core/scalars.h"
#include "memory/run/program_set.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/products/matmul.h"
#include "ops/sums/gates.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/transfers.h"
#include "tests/emulation/steps_fixture.h"
#include "train/loop/step_watch.h"

namespace pal::test {
namespace {

TEST_F(Steps, FindsTheNodeThatMakesANan) {
  Builder b;
  Val x = b.input("x", {Shape{8}});
  b.output("y", mul(scale(x, 2), x));
  ProgramSet set({}, cuda_device());
  Executable& step = set.add("step", b.take());
  reinterpret_cast<float*>(step.input("x"))[3] = INFINITY;
  step.run();
  EXPECT_TRUE(std::isinf(step.output("y")[3]));
  step.runner().set_options({.check_finite = true});
  try {
    step.run();
    ADD_FAILURE() << "not found";
  } catch (const ProgramError& error) {
    EXPECT_NE(std::string(error.what()).find("[scale] made an infinity in output 0"),
              std::string::npos)
        << error.what();
  }
}

// A NaN between two looks is found, and the step that had it; after that nothing is left to find.
TEST_F(Steps, WatchFindsTheStepNobodyLookedAt) {
  const Device device = cuda_device();
  Builder b;
  b.output("loss", scale(b.input("a", {Shape{1}}), 2));
  b.output("gate", scale(b.input("b", {Shape{4}}), 1));
  b.output("grad_norm", scale(b.input("c", {Shape{4}}), 1));
  ProgramSet set({}, device);
  Executable& step = set.add("step", b.take());
  StepWatch watch(device.accelerator, 8);
  auto run = [&](int64_t n, float loss, float open, float norm = 1) {
    *reinterpret_cast<float*>(step.input("a")) = loss;
    std::fill_n(reinterpret_cast<float*>(step.input("b")), 4, open);
    std::fill_n(reinterpret_cast<float*>(step.input("c")), 4, norm);
    step.run();
    watch.keep(step, n, true);
  };
  for (int64_t n = 0; n < 8; ++n) run(n, 1, 1);
  EXPECT_FALSE(watch.first_bad());
  for (int64_t n = 8; n < 14; ++n) run(n, n == 12 ? NAN : 1, n == 11 ? 0 : 1);
  EXPECT_EQ(watch.first_bad(), 11);
  EXPECT_FALSE(watch.first_bad());
  run(14, INFINITY, 1);
  EXPECT_EQ(watch.first_bad(), 14);
  run(15, 1, 1, INFINITY), run(16, 1, 1, NAN);
  EXPECT_EQ(watch.first_bad(), 16);
}

// cuBLASLt's relu makes 0 of a NaN, which the loss then does not show: the gradients do.
TEST_F(Steps, WatchFindsANanThatAnEpilogueHid) {
  const Device device = cuda_device();
  Builder b;
  Val scalars = step_scalars(b.input("scalars", scalars_spec(), Space::host));
  Val x = b.input("x", {{4, 8}}), w = b.state("w", {{8, 16}}, Role::weight);
  Val loss = sum_all(relu(matmul(x, w)));
  b.output("loss", loss);
  {
    Builder::Within phase(b, Phase::backward);
    Val dw = differentiate(b, loss, {w})[0];
    b.output("gate", clip_norm_gate(scalars, loss, {}));
    b.output("grad_norm", clip_norm_gate(scalars, {}, {sum_of_squares(dw)}));
  }
  ProgramSet set({}, device);
  Executable& step = set.add("step", b.take());
  std::fill_n(reinterpret_cast<float*>(set.state()[0].data), 8 * 16, 0.5f);
  StepWatch watch(device.accelerator, 2);
  for (const float value : {1.0f, NAN}) {
    std::fill_n(reinterpret_cast<float*>(step.input("x")), 4 * 8, 1.0f);
    *reinterpret_cast<float*>(step.input("x")) = value;
    const StepScalars now;
    std::memcpy(step.input("scalars"), &now, sizeof now);
    step.run();
    watch.keep(step, std::isnan(value), true);
  }
  EXPECT_EQ(watch.first_bad(), 1);
  EXPECT_TRUE(emulation::real() || std::isfinite(*step.output("loss"))) << "it was not hidden";
}

}  // namespace
}  // namespace pal::test
