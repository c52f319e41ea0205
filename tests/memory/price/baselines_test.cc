// The two figures that reductions are stated against.
#include "memory/price/baselines.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "autograd/differentiate.h"
#include "core/scalars.h"
#include "memory/storages/lifetimes.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/dropout.h"
#include "ops/losses/cross_entropy.h"
#include "ops/products/matmul.h"
#include "tests/memory/running.h"

namespace pal::test {
namespace {

constexpr int64_t kSamples = 512, kFeatures = 64, kWords = 4096;

// A product with many columns, whose scores and their gradient are the largest values.
Program classifier(float dropout, bool replayed) {
  Builder b;
  Val scalars = b.input("scalars", scalars_spec());
  Val x = b.input("x", {{kSamples, kFeatures}}),
      labels = b.input("labels", {{kSamples}, DType::i32});
  Val w = b.state("w", {{kFeatures, kWords}}, Role::weight);
  Val v = b.state("v", {{kFeatures, kFeatures}}, Role::weight);
  Val h = matmul(x, v);
  if (replayed)
    h = pal::dropout(h, scalars, dropout);
  else if (dropout > 0)
    h = dropout_apply(h, dropout_mask(scalars, h.spec(), dropout), dropout);
  Val loss = cross_entropy(matmul(h, w), labels, scalars).loss;
  b.output("loss", loss);
  const auto d = differentiate(b, loss, {w, v});
  b.output("dw", d[0]), b.output("dv", d[1]);
  return b.take();
}

// Operators are named by strings there: a name that no operator has would be a habit without
// effect.
TEST(Baselines, EveryHabitIsAnOperators) {
  EXPECT_FALSE(framework_habits().empty());
  for (const Habit& habit : framework_habits()) {
    const auto ops = all_ops();
    EXPECT_TRUE(std::any_of(ops.begin(), ops.end(), [&](auto* op) { return habit.op == op->name; }))
        << habit.op;
  }
}

TEST(Baselines, OursIsTheRecordedStepInPlace) {
  const Program p = classifier(0, false);
  EXPECT_EQ(baselines_of(p).ours, peak_bytes(p));
}

TEST(Baselines, AFrameworkHasTheLossGradientBesideTheScores) {
  const Baselines b = baselines_of(classifier(0, false));
  const int64_t scores = kSamples * kWords * 4;
  EXPECT_GE(b.framework, b.ours + scores * 3 / 4);  // the peak is elsewhere then
  EXPECT_LT(b.framework, b.ours + scores + scores / 4);
}

TEST(Baselines, AFrameworkKeepsFourBytesForEveryDroppedElement) {
  const Baselines without = baselines_of(classifier(0, false));
  const Baselines replayed = baselines_of(classifier(0.5f, true));
  const Baselines stashed = baselines_of(classifier(0.5f, false));
  const int64_t mask = kSamples * kFeatures * 4;
  EXPECT_EQ(replayed.ours, without.ours);
  EXPECT_EQ(replayed.framework, without.framework + mask);
  EXPECT_EQ(stashed.framework, replayed.framework) << "recorded as a value, or not: the same";
  EXPECT_EQ(stashed.ours, without.ours + mask);
}

// Of relu(x w) and its gradient ours keeps the result alone.
TEST(Baselines, CudnnKeepsWhatAnActivationReads) {
  auto step = [](Val (*activation)(Val)) {
    Builder b;
    Val x = b.input("x", {{kSamples, kFeatures}}),
        labels = b.input("labels", {{kSamples}, DType::i32});
    Val scalars = b.input("scalars", scalars_spec());
    Val w = b.state("w", {{kFeatures, kWords}}, Role::weight);
    Val v = b.state("v", {{kWords, kFeatures}}, Role::weight);
    Val loss = cross_entropy(matmul(activation(matmul(x, w)), v), labels, scalars).loss;
    b.output("loss", loss);
    const auto d = differentiate(b, loss, {w, v});
    b.output("dw", d[0]), b.output("dv", d[1]);
    return b.take();
  };
  for (auto activation : {relu, pal::tanh, sigmoid}) {
    const Program p = step(activation);
    const Baselines b = baselines_of(p);
    EXPECT_EQ(b.ours, peak_bytes(p));
    EXPECT_EQ(b.framework, b.ours);
    EXPECT_EQ(b.cudnn, b.ours + kSamples * kWords * 4);
  }
}

TEST(Baselines, WhatIsDrawnInTheForwardPhaseAloneIsNotKept) {
  Builder b;
  Val scalars = b.input("scalars", scalars_spec()), x = b.input("x", {{kSamples, kFeatures}});
  b.output("loss", matmul(pal::dropout(x, scalars, 0.5f), x, true));
  const Program p = b.take();
  EXPECT_EQ(baselines_of(p).framework, baselines_of(p).ours);
}

}  // namespace
}  // namespace pal::test
