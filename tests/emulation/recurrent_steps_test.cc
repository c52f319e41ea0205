// Steps of a speech recogniser whose recurrent layers are one operator each, beside those of
// unrolled cells, on the processor and on the emulated GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "autograd/differentiate.h"
#include "core/scalars.h"
#include "models/deepspeech2.h"
#include "ops/optimizer/sgd.h"
#include "ops/recurrent/recurrent_layer.h"
#include "tests/emulation/fixture.h"
#include "tests/support/eval.h"

namespace pal::test {
namespace {

constexpr int64_t kFrames = 40, kBatch = 3, kLabels = 2;
constexpr int kSteps = 10;

DeepSpeech2Options options(bool whole) {  // deepspeech2_small's network, narrower
  DeepSpeech2Options o;
  o.bins = 21, o.labels = 11, o.channels = 2, o.layers = 2, o.hidden = 10;
  o.conv_kernels = {"11x21", "11x11"}, o.conv_strides = {"2x2", "1x2"};
  o.whole_layers = whole;
  return o;
}

Program training_step(const DeepSpeech2Options& o) {
  Builder b;
  Val scalars = b.input("scalars", scalars_spec());
  const SpeechLoss loss = deepspeech2_loss(b, o, {kFrames, kLabels, kBatch}, scalars, true);
  std::vector<Val> weights;
  for (const StateSlot& slot : b.program().state) {
    if (slot.role == Role::weight) weights.push_back({&b, slot.start});
  }
  const std::vector<Val> gradients = differentiate(b, loss.loss, weights);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (gradients[i]) sgd(weights[i], gradients[i], scalars);
  }
  b.output("loss", loss.loss);
  return b.take();
}

struct Trained {
  std::vector<float> losses, weights;
  int64_t layers = 0;  // nodes of them
};
// Sentences of several lengths: one of them is shorter than the others, one has no frame at all.
Trained train(bool whole, const Device& device) {
  const DeepSpeech2Options o = options(whole);
  KernelCache cache(device);
  Evaluator eval(training_step(o), {.cache = &cache});
  Trained out;
  for (const Node& node : eval.program().nodes) out.layers += node.op == &gru_layer_op;
  uint32_t seed = 1;
  for (const StateSlot& slot : eval.program().state) {
    std::mt19937 rng(seed++);
    std::vector<float> x(size_t(eval.program().value(slot.start).spec.numel()));
    for (float& v : x) v = std::uniform_real_distribution<float>(-0.3f, 0.3f)(rng);
    if (slot.role == Role::statistic) std::fill(x.begin(), x.end(), slot.init.a);
    eval.set(slot.start, x);
  }
  std::vector<float> features(size_t(kBatch * kFrames * o.bins));
  for (size_t e = 0; e < features.size(); ++e) features[e] = float((e * 7919) % 23) / 11 - 1;
  eval.set(speech_input::kFeatures, features);
  eval.set(speech_input::kSteps, {float(output_steps(o, kFrames)), 9, 0});
  eval.set(speech_input::kLabels, {1, 4, 7, 2, 5, 9});
  eval.set(speech_input::kLabelLengths, {2, 1, 0});
  for (int i = 0; i < kSteps; ++i) {
    const StepScalars scalars{.learning_rate = 0.05f, .step = i, .tokens = kBatch};
    eval.set_bytes(eval.find("scalars"), std::as_bytes(std::span(&scalars, 1)));
    eval.run();
    out.losses.push_back(eval.floats("loss")[0]);
    eval.next_step();
  }
  for (const StateSlot& slot : eval.program().state) {
    const std::vector<float> x = eval.floats(slot.start);
    out.weights.insert(out.weights.end(), x.begin(), x.end());
  }
  return out;
}

void expect_near(const Trained& got, const Trained& want) {
  for (size_t i = 0; i < want.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], want.losses[i], 1e-5f * want.losses[i]) << "step " << i;
  }
  ASSERT_EQ(got.weights.size(), want.weights.size());
  for (size_t i = 0; i < want.weights.size(); ++i) {
    ASSERT_NEAR(got.weights[i], want.weights[i], 2e-5f) << i;
  }
}

class RecurrentSteps : public OnGpu {};

TEST_F(RecurrentSteps, AreThoseOfUnrolledCells) {
  const Trained want = train(false, cpu_device(1));
  EXPECT_EQ(want.layers, 0);
  EXPECT_LT(want.losses.back(), 0.9f * want.losses.front()) << "it learns";
  const Trained on_cpu = train(true, cpu_device(1));
  EXPECT_EQ(on_cpu.layers, 4) << "two layers, two directions";
  EXPECT_EQ(on_cpu.losses[0], want.losses[0]) << "the first step's states have the same bits";
  expect_near(on_cpu, want);
  const int64_t before = emulation::layers_run();
  const Trained on_cudnn = train(true, cuda_device());
  expect_near(on_cudnn, want);
  if (!emulation::real()) {
    EXPECT_EQ(emulation::layers_run() - before, 3 * 4 * kSteps);
  }
  EXPECT_EQ(train(true, cuda_device()).weights, on_cudnn.weights) << "the same bits again";
  Device without = cuda_device();
  without.cudnn = false;
  expect_near(train(true, without), want);
}

}  // namespace
}  // namespace pal::test
