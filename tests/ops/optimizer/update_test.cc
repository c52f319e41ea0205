// Ten steps of every optimizer against PyTorch's formulas in double; gates; the slots it makes.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "autograd/optimizer.h"
#include "core/error.h"
#include "core/scalars.h"
#include "ops/kernels/gate.h"
#include "ops/optimizer/adam.h"
#include "ops/optimizer/sgd.h"
#include "ops/sums/gates.h"
#include "tests/support/eval.h"

namespace pal::test {
namespace {

using Kind = OptimizerSpec::Kind;
constexpr int64_t kRows = 3, kColumns = 7, kCount = kRows * kColumns;
constexpr float kLr = 0.1f, kLossScale = 8;

std::vector<float> noise(int64_t n, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<float> out((size_t(n)));
  for (float& x : out) x = std::uniform_real_distribution<float>(-2, 2)(rng);
  return out;
}

// torch.optim's SGD, Adam, AdamW, written out for one element.
struct Reference {
  const OptimizerSpec& spec;
  double w, m = 0, v = 0;
  void step(double g, double lr, int t) {
    if (spec.clip_value > 0)
      g = std::max(-double(spec.clip_value), std::min(double(spec.clip_value), g));
    if (spec.kind == Kind::adamw)
      w -= lr * spec.weight_decay * w;
    else
      g += spec.weight_decay * w;
    if (spec.kind == Kind::sgd) {
      w -= lr * g;
    } else if (spec.kind == Kind::momentum || spec.kind == Kind::nesterov) {
      m = spec.momentum * m + g;
      w -= lr * (spec.kind == Kind::nesterov ? g + spec.momentum * m : m);
    } else {
      m = spec.beta1 * m + (1 - spec.beta1) * g;
      v = spec.beta2 * v + (1 - spec.beta2) * g * g;
      const double m_hat = m / (1 - std::pow(spec.beta1, t)),
                   v_hat = v / (1 - std::pow(spec.beta2, t));
      w -= lr * m_hat / (std::sqrt(v_hat) + spec.eps);
    }
  }
};

// A weight "w" whose gradient is an input "g", with a gate over it and the loss.
Program program_of(const OptimizerSpec& spec, bool gated, float max_norm = 0) {
  Builder b;
  Val scalars = b.input("scalars", scalars_spec());
  Builder::Within layer(b, "layer");
  Val w = b.weight("w", {Shape{kRows, kColumns}}, {}), g = b.input("g", w.spec());
  Val gate;
  if (gated) {
    Val loss = b.input("loss", {Shape{1}});
    gate = clip_norm_gate(scalars, loss, {sum_of_squares(g)}, {.max_norm = max_norm});
    b.output("gate", gate);
  }
  std::vector<Val> weights{w}, gradients{g};
  apply_optimizer(b, spec, weights, gradients, scalars, gate);
  return b.take();
}

class TenSteps : public testing::TestWithParam<OptimizerSpec> {};

TEST_P(TenSteps, MatchPyTorch) {
  const OptimizerSpec& spec = GetParam();
  for (bool gated : {false, true}) {
    const float max_norm = 2;
    Evaluator eval(program_of(spec, gated, max_norm));
    std::vector<float> start = noise(kCount, 1);
    eval.set(eval.program().find_state("layer/w")->start, start);
    for (const StateSlot& slot : eval.program().state) {
      if (slot.name != "layer/w") eval.set(slot.start, std::vector<float>(size_t(kCount), 0));
    }
    std::vector<Reference> reference;
    for (float x : start) reference.push_back({spec, x});
    for (int t = 1; t <= 10; ++t) {
      auto g = noise(kCount, unsigned(100 + t));
      auto scaled = g;
      for (float& x : scaled) x *= kLossScale;
      eval.set("g", scaled);
      if (gated) eval.set("loss", {1});
      const float lr = kLr / float(t);
      *eval.as<StepScalars>(eval.find("scalars")) = {
          .learning_rate = lr, .loss_scale = kLossScale, .step = t - 1};
      eval.run();
      double norm = 0;
      for (float x : g) norm += double(x) * x;
      norm = std::sqrt(norm);
      const double clip = gated ? std::min(1.0, max_norm / (norm + 1e-6)) : 1;
      for (int64_t i = 0; i < kCount; ++i) {
        reference[size_t(i)].step(g[size_t(i)] * clip, double(lr) * spec.lr, t);
        const auto w = eval.floats(eval.program().find_state("layer/w")->end);
        EXPECT_NEAR(w[size_t(i)], reference[size_t(i)].w, 2e-6 * std::max(1, t)) << t << "," << i;
      }
      if (gated) {
        EXPECT_NEAR(eval.floats("gate")[2], norm, 1e-5);
      }
      eval.next_step();
    }
  }
}

std::string kind_name(const testing::TestParamInfo<OptimizerSpec>& test) {
  const OptimizerSpec& spec = test.param;
  const char* const names[] = {"Sgd", "Momentum", "Nesterov", "Adam", "Adamw"};
  return names[size_t(spec.kind)] + std::string(spec.clip_value > 0 ? "Clipped" : "");
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, TenSteps,
    testing::Values(OptimizerSpec{.kind = Kind::sgd, .weight_decay = 0.1f},
                    OptimizerSpec{.kind = Kind::sgd, .lr = 0.5f, .clip_value = 0.25f},
                    OptimizerSpec{.kind = Kind::momentum, .weight_decay = 0.1f},
                    OptimizerSpec{.kind = Kind::nesterov, .momentum = 0.8f, .weight_decay = 0.1f},
                    OptimizerSpec{.kind = Kind::adam, .beta2 = 0.98, .weight_decay = 0.1f},
                    OptimizerSpec{.kind = Kind::adam, .clip_value = 0.25f},
                    OptimizerSpec{.kind = Kind::adamw, .beta1 = 0.8, .weight_decay = 0.1f}),
    kind_name);

TEST(Gate, ClosedLeavesEveryStateAsItWasBitForBit) {
  for (Kind kind : {Kind::sgd, Kind::nesterov, Kind::adamw}) {
    for (int broken : {0, 1}) {  // the gradient, the loss
      for (bool in_place : {true, false}) {
        Evaluator eval(program_of({.kind = kind, .weight_decay = 0.1f}, true),
                       {.updates_in_place = in_place});
        unsigned seed = 1;
        for (const StateSlot& slot : eval.program().state) {
          auto x = noise(kCount, seed++);
          x[3] = -0.0f;
          eval.set(slot.start, x);
        }
        std::vector<std::vector<std::byte>> before;
        for (const StateSlot& slot : eval.program().state) before.push_back(eval.bytes(slot.start));
        auto g = noise(kCount, 9);
        if (broken == 0) g[5] = INFINITY;
        eval.set("g", g), eval.set("loss", {broken == 1 ? NAN : 1.0f});
        *eval.as<StepScalars>(eval.find("scalars")) = {.learning_rate = 0.1f};
        eval.run();
        EXPECT_EQ(eval.floats("gate")[1], 0);
        for (size_t i = 0; i < before.size(); ++i) {
          EXPECT_EQ(eval.bytes(eval.program().state[i].end), before[i]);
        }
      }
    }
  }
}

TEST(Gate, SumsPartialsAndUndoesTheLossScale) {
  Builder b;
  Val scalars = b.input("scalars", scalars_spec());
  Val p = b.input("p", {Shape{1}}), q = b.input("q", {Shape{1}});
  b.output("open", clip_norm_gate(scalars, {}, {p, q}));
  b.output("clipped", clip_norm_gate(scalars, {}, {p, q}, {.max_norm = 1}));
  Evaluator eval(b.take());
  eval.set("p", {36}), eval.set("q", {64});
  *eval.as<StepScalars>(eval.find("scalars")) = {.loss_scale = 2};
  eval.run();
  EXPECT_EQ(eval.floats("open"), (std::vector<float>{0.5f, 1, 5, 0}));
  EXPECT_NEAR(eval.floats("clipped")[0], 0.1, 1e-6);
  EXPECT_EQ(eval.floats("clipped")[1], 1);
}

TEST(Optimizer, NamesSlotsAfterWeightsAndSkipsThoseWithoutGradient) {
  Builder b;
  Val scalars = b.input("scalars", scalars_spec());
  Val w, bias, unused;
  {
    Builder::Within layer(b, "encoder");
    w = b.weight("w", {Shape{4, 2}}, {}), bias = b.weight("bias", {Shape{2}}, {});
    unused = b.weight("unused", {Shape{2}}, {});
  }
  std::vector<Val> weights{w, bias, unused};
  std::vector<Val> gradients{b.input("dw", w.spec()), b.input("db", bias.spec()), Val{}};
  apply_optimizer(b, {.kind = Kind::adamw, .weight_decay = 0.1f, .decay_vectors = false}, weights,
                  gradients, scalars, {});
  const Program& p = b.program();
  ASSERT_EQ(p.node_count(), 2);
  EXPECT_EQ(p.scopes[size_t(p.node(0).scope)], "encoder");
  EXPECT_EQ(p.node(0).phase, Phase::update);
  EXPECT_FLOAT_EQ(p.node(0).attrs.as<AdamAttrs>().weight_decay, 0.1f);
  EXPECT_EQ(p.node(1).attrs.as<AdamAttrs>().weight_decay, 0) << "a vector is not decayed";
  for (auto* name : {"optimizer/m/encoder/w", "optimizer/v/encoder/w", "optimizer/m/encoder/bias",
                     "optimizer/v/encoder/bias"}) {
    const StateSlot* slot = p.find_state(name);
    ASSERT_TRUE(slot) << name;
    EXPECT_EQ(slot->role, Role::optimizer_state);
    EXPECT_NE(slot->start, slot->end) << name;
  }
  EXPECT_FALSE(p.find_state("optimizer/m/encoder/unused"));
  EXPECT_NE(p.find_state("encoder/w")->end, w.id);
  // The same again would write values that are no longer the newest.
  EXPECT_THROW(apply_optimizer(b, {}, weights, gradients, scalars, {}), ProgramError);
}

}  // namespace
}  // namespace pal::test
