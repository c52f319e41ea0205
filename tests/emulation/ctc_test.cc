// CTC at its edges on the GPU: no labels, no steps, no alignment, the same label again and again,
// as the CPU has them bit for bit; and what the CPU refuses, which becomes NaN.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/differentiate.h"
#include "core/accelerator.h"
#include "core/error.h"
#include "core/philox.h"
#include "core/scalars.h"
#include "ops/losses/ctc_loss.h"
#include "tests/emulation/emulation.h"
#include "tests/support/eval.h"

namespace pal::test {
namespace {

constexpr int64_t kSteps = 40, kSymbols = 7, kLongest = 12;

struct Sequence {
  int64_t steps;
  std::vector<int> labels;
};

struct Result {
  std::vector<float> loss, nll, gradient;
};

Result run(const Device& device, const std::vector<Sequence>& batch, CtcAttrs attrs) {
  const int64_t B = int64_t(batch.size());
  std::vector<float> logits(size_t(kSteps * B * kSymbols)), labels(size_t(kLongest * B), -3);
  std::vector<float> steps, lengths;
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = 8 * uniform01(philox({{uint32_t(i), 0, 0, 0}}, 1, 2).x[0]) - 4;
  }
  for (size_t b = 0; b < batch.size(); ++b) {
    for (size_t i = 0; i < batch[b].labels.size(); ++i) {
      labels[i * size_t(B) + b] = float(batch[b].labels[i]);
    }
    steps.push_back(float(batch[b].steps)), lengths.push_back(float(batch[b].labels.size()));
  }
  Builder b;
  Val x = b.input("logits", {{kSteps, B, kSymbols}});
  const CtcLoss ctc = ctc_loss(
      {x, b.input("labels", {{kLongest, B}, DType::i32}), b.input("steps", {{B}, DType::i32}),
       b.input("lengths", {{B}, DType::i32}), b.input("scalars", scalars_spec())},
      attrs);
  b.output("loss", ctc.loss), b.output("nll", ctc.nll);
  b.output("gradient", differentiate(b, ctc.loss, {x})[0]);
  KernelCache cache(device);
  Evaluator eval(b.take(), {.cache = &cache});
  eval.set("logits", logits), eval.set("labels", labels);
  eval.set("steps", steps), eval.set("lengths", lengths);
  const StepScalars scalars{.tokens = 3};
  eval.set_bytes(eval.find("scalars"), std::as_bytes(std::span(&scalars, 1)));
  eval.run();
  return {eval.floats("loss"), eval.floats("nll"), eval.floats("gradient")};
}

class GpuCtc : public testing::Test {
 protected:
  void SetUp() override {
    emulation::settings() = {};
    try {
      gpu_ = cuda_device();
    } catch (const UsageError&) {
      GTEST_SKIP() << "there is no GPU";
    }
  }
  void TearDown() override { emulation::settings() = {}; }
  Device gpu_;
};

void expect_same(const std::vector<float>& a, const std::vector<float>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    ASSERT_EQ(a[i], b[i]) << what << " " << i;
  }
}

TEST_F(GpuCtc, HasTheCpusEdges) {
  const std::vector<Sequence> possible = {
      {kSteps, {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}},  // as long as they come
      {kSteps, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}},  // a blank between any two
      {3, {}},
      {0, {}},
      {1, {4}},
      {5, {3, 3, 1}},
      {4, {6, 1, 6, 1}}};
  std::vector<Sequence> all = possible;
  all.insert(all.end(), {{0, {2}}, {3, {1, 2, 3, 4}}, {3, {5, 5}}, {2, {5, 5}}});
  for (const auto order : {emulation::Order::forward, emulation::Order::shuffled}) {
    emulation::settings().order = order;
    for (const std::vector<Sequence>& batch : {possible, all}) {
      for (const bool zero : {false, true}) {
        const CtcAttrs attrs{.zero_infinity = zero};
        const Result want = run(cpu_device(1), batch, attrs), got = run(gpu_, batch, attrs);
        expect_same(want.loss, got.loss, "loss");
        expect_same(want.nll, got.nll, "nll");
        expect_same(want.gradient, got.gradient, "gradient");
        EXPECT_EQ(std::isinf(got.loss[0]), !zero && batch.size() == all.size());
      }
    }
  }
}

// Numbers of f64 for the sequences, and of f32 for their steps and for the states of two steps.
TEST_F(GpuCtc, AsksForTheWorkspaceThatItUses) {
  constexpr int64_t kBatch = 3, kStates = 2 * kLongest + 1;
  const Specs in = {{{kSteps, kBatch, kSymbols}}, {{kLongest, kBatch}, DType::i32}};
  EXPECT_EQ(ctc_loss_cuda.prepare(gpu_, in, {}, CtcAttrs{}).workspace,
            kBatch * 8 + 4 * (kSteps * kBatch + kBatch * 2 * kStates));
}

// Nothing may throw on a GPU: the loss is NaN, which the gate stops at.
TEST_F(GpuCtc, RefusesByNan) {
  const std::vector<Sequence> good = {{5, {1, 2}}, {6, {3}}};
  for (const Sequence& bad : std::vector<Sequence>{
           {kSteps + 1, {1}}, {-1, {1}}, {5, {0}}, {5, {1, kSymbols}}, {5, {-1}}}) {
    EXPECT_THROW(run(cpu_device(1), {good[0], bad, good[1]}, {}), ProgramError);
    const Result got = run(gpu_, {good[0], bad, good[1]}, {.zero_infinity = true});
    EXPECT_TRUE(std::isnan(got.loss[0]));
    EXPECT_TRUE(std::isfinite(got.nll[0]) && std::isnan(got.nll[1]) && std::isfinite(got.nll[2]));
  }
}

}  // namespace
}  // namespace pal::test
