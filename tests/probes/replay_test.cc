// Probe 12: one step, run again with new scalars. Learning rate, step number and random numbers
// come in with one small value, so neither program nor runner changes from step to step.
#include <gtest/gtest.h>

#include "autograd/differentiate.h"
#include "autograd/optimizer.h"
#include "core/print.h"
#include "core/verify.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/dropout.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/transfers.h"
#include "tests/probes/probe.h"

namespace pal::test {
namespace {

constexpr int64_t kRows = 16, kWidth = 24;

Program step() {
  Builder b;
  Val scalars = step_scalars(b.input("scalars", scalars_spec(), Space::host));
  Val x = b.input("x", {{kRows, kWidth}});
  Val w1 = b.state("W1", {{kWidth, kWidth}}, Role::weight);
  Val w2 = b.state("W2", {{kWidth, kWidth}}, Role::weight);
  Val h = dropout(tanh(matmul(x, w1)), scalars, 0.5f);
  Val y = dropout(matmul(h, w2), scalars, 0.25f);
  Val loss = sum_all(mul(y, y));
  b.output("loss", loss);
  b.output("y", y);
  const std::vector<Val> weights = {w1, w2};
  const auto g = differentiate(b, loss, weights);
  apply_optimizer(b, {.kind = OptimizerSpec::Kind::adam}, weights, g, scalars, {});
  Program p = b.take();
  verify(p);
  return p;
}

StepScalars scalars_of(int number) {
  StepScalars s;
  s.step = number;
  s.learning_rate = 0.01f / float(1 + number);
  s.seed_low = 7, s.seed_high = 3;
  return s;
}

using State = std::vector<std::pair<std::string, std::vector<float>>>;

State initial() {
  State out;
  uint32_t seed = 1;
  for (auto& slot : step().state) {
    const bool weight = slot.role == Role::weight;
    out.push_back({slot.name, weight ? random_floats(kWidth * kWidth, ++seed)
                                     : std::vector<float>(size_t(kWidth * kWidth), 0)});
  }
  return out;
}

struct Outcome {
  State state;
  std::vector<float> loss, y;
  bool operator==(const Outcome&) const = default;
};

void put(Planned& p, const State& state) {
  for (auto& [name, numbers] : state) p.set(name, numbers);
  p.set("x", random_floats(kRows * kWidth, 50));
}

Outcome run(Planned& p, const StepScalars& scalars) {
  p.set_scalars("scalars", scalars);
  p.run();
  Outcome out{.loss = p.floats("loss"), .y = p.floats("y")};
  for (auto& slot : p.program().state) out.state.push_back({slot.name, p.floats(slot.name)});
  return out;
}

// A program made for this step alone.
Outcome fresh(const State& state, const StepScalars& scalars) {
  Planned p(step());
  put(p, state);
  return run(p, scalars);
}

TEST(Replay, NewScalarsAreAllThatANewStepNeeds) {
  Planned replayed(step());
  put(replayed, initial());
  const std::string before = print(replayed.program());
  State state = initial();
  for (int number = 0; number < 4; ++number) {
    const Outcome again = run(replayed, scalars_of(number));
    EXPECT_EQ(again, fresh(state, scalars_of(number))) << "step " << number;
    state = again.state;
  }
  EXPECT_EQ(print(replayed.program()), before);
}

TEST(Replay, EveryScalarIsReadAnew) {
  const StepScalars base = scalars_of(3);
  const Outcome with_base = fresh(initial(), base);
  StepScalars other = base;
  other.learning_rate *= 2;
  Outcome changed = fresh(initial(), other);
  EXPECT_EQ(changed.y, with_base.y);  // the same numbers were dropped
  EXPECT_NE(changed.state, with_base.state);
  auto drops_others = [&](auto change) {
    other = base;
    change(other);
    return fresh(initial(), other).y != with_base.y;
  };
  EXPECT_TRUE(drops_others([](StepScalars& s) { ++s.step; }));
  EXPECT_TRUE(drops_others([](StepScalars& s) { ++s.micro_batch; }));
  EXPECT_TRUE(drops_others([](StepScalars& s) { ++s.seed_low; }));
  EXPECT_TRUE(drops_others([](StepScalars& s) { ++s.seed_high; }));
}

// Without its first node a step would go on with the scalars of the step before.
TEST(Replay, StaleScalarsAreNoticed) {
  Planned replayed(step());
  put(replayed, initial());
  const State state = run(replayed, scalars_of(0)).state;
  const Outcome stale = run(replayed, scalars_of(0)), right = fresh(state, scalars_of(1));
  EXPECT_NE(stale.y, right.y);
  EXPECT_NE(stale.state, right.state);
}

}  // namespace
}  // namespace pal::test
