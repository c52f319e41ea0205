// Steps of speech recognisers and of a translator whose recurrent layers are one operator each,
// beside those of unrolled cells, on the processor and on the emulated GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>

#include "autograd/differentiate.h"
#include "core/scalars.h"
#include "models/deepspeech2.h"
#include "models/gnmt.h"
#include "models/nmt.h"
#include "ops/optimizer/sgd.h"
#include "ops/recurrent/recurrent_layer.h"
#include "tests/emulation/fixture.h"
#include "tests/support/eval.h"

namespace pal::test {
namespace {

constexpr int64_t kBatch = 3;
constexpr int kSteps = 10;

// A network, and the numbers of a batch.
struct Network {
  std::string name;
  int64_t layers;  // a direction each
  float rate;      // of learning
  std::function<Val(Builder&, Val scalars, bool whole)> loss;
  std::map<std::string, std::vector<float>> batch;
};
void PrintTo(const Network& network, std::ostream* out) { *out << network.name; }

// deepspeech2_small's network, narrower. One sentence is shorter than the others, one has no frame
// at all.
Network speech(DeepSpeech2Options::Cell cell) {
  constexpr int64_t kFrames = 40, kLabels = 2;
  DeepSpeech2Options o;
  o.bins = 21, o.labels = 11, o.channels = 2, o.layers = 2, o.hidden = 10, o.cell = cell;
  o.conv_kernels = {"11x21", "11x11"}, o.conv_strides = {"2x2", "1x2"};
  std::vector<float> features(size_t(kBatch * kFrames * o.bins));
  for (size_t e = 0; e < features.size(); ++e) features[e] = float((e * 7919) % 23) / 11 - 1;
  return {.name = cell == DeepSpeech2Options::Cell::gru ? "SpeechOfGru" : "SpeechOfLstm",
          .layers = 4,
          .rate = 0.05f,
          .loss =
              [o](Builder& b, Val scalars, bool whole) {
                DeepSpeech2Options its = o;
                its.whole_layers = whole;
                return deepspeech2_loss(b, its, {kFrames, kLabels, kBatch}, scalars, true).loss;
              },
          .batch = {{speech_input::kFeatures, features},
                    {speech_input::kSteps, {float(output_steps(o, kFrames)), 9, 0}},
                    {speech_input::kLabels, {1, 4, 7, 2, 5, 9}},
                    {speech_input::kLabelLengths, {2, 1, 0}}}};
}

template <class Options>
Network translator(const std::string& name, int64_t layers, const Options& o,
                   TranslationModel (*model)(const Options&)) {
  return {.name = name,
          .layers = layers,
          .rate = 0.3f,
          .loss =
              [=](Builder& b, Val scalars, bool whole) {
                Options its = o;
                its.whole_layers = whole;
                return model(its).loss(b, {5, 3, kBatch}, scalars, true).loss;
              },
          .batch = {{translation_input::kSource, {4, 5, 6, 7, 8, 9, 10, 4, 0, 5, 6, 0, 7, 0, 0}},
                    {translation_input::kSourceLengths, {5, 3, 2}},
                    {translation_input::kTargetIn, {2, 2, 2, 4, 5, 6, 7, 8, 0}},
                    {translation_input::kTargetOut, {4, 5, 6, 7, 8, 3, 3, 3, 0}}}};
}

// Both ways, and a layer upon them; the decoder begins where the encoder ends.
Network nmt() {
  NmtOptions o;
  o.source_vocab = o.target_vocab = 11, o.hidden = 10, o.embedding = 6, o.attention_size = 4;
  return translator("Nmt", 3, o, nmt_model);
}
Network gnmt() {
  GnmtOptions o;
  o.source_vocab = o.target_vocab = 11, o.hidden = 10, o.encoder_layers = 3, o.decoder_layers = 2;
  o.dropout = 0;
  return translator("Gnmt", 4, o, gnmt_model);
}

Program training_step(const Network& network, bool whole) {
  Builder b;
  Val scalars = b.input("scalars", scalars_spec());
  const Val loss = network.loss(b, scalars, whole);
  std::vector<Val> weights;
  for (const StateSlot& slot : b.program().state) {
    if (slot.role == Role::weight) weights.push_back({&b, slot.start});
  }
  const std::vector<Val> gradients = differentiate(b, loss, weights);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (gradients[i]) sgd(weights[i], gradients[i], scalars);
  }
  b.output("loss", loss);
  return b.take();
}

struct Trained {
  std::vector<float> losses, weights;
  int64_t layers = 0;  // nodes of them
};
Trained train(const Network& network, bool whole, const Device& device) {
  KernelCache cache(device);
  Evaluator eval(training_step(network, whole), {.cache = &cache});
  Trained out;
  for (const Node& node : eval.program().nodes) {
    out.layers += node.op == &gru_layer_op || node.op == &lstm_layer_op;
  }
  uint32_t seed = 1;
  for (const StateSlot& slot : eval.program().state) {
    std::mt19937 rng(seed++);
    std::vector<float> x(size_t(eval.program().value(slot.start).spec.numel()));
    for (float& v : x) v = std::uniform_real_distribution<float>(-0.3f, 0.3f)(rng);
    if (slot.role == Role::statistic) std::fill(x.begin(), x.end(), slot.init.a);
    eval.set(slot.start, x);
  }
  for (const auto& [name, numbers] : network.batch) eval.set(name, numbers);
  for (int i = 0; i < kSteps; ++i) {
    const StepScalars scalars{.learning_rate = network.rate, .step = i, .tokens = kBatch};
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

class RecurrentSteps : public OnGpu, public testing::WithParamInterface<Network> {};

TEST_P(RecurrentSteps, AreThoseOfUnrolledCells) {
  const Network& network = GetParam();
  const Trained want = train(network, false, cpu_device(1));
  EXPECT_EQ(want.layers, 0);
  EXPECT_LT(want.losses.back(), 0.9f * want.losses.front()) << "it learns";
  const Trained on_cpu = train(network, true, cpu_device(1));
  EXPECT_EQ(on_cpu.layers, network.layers);
  EXPECT_EQ(on_cpu.losses[0], want.losses[0]) << "the first step's states have the same bits";
  expect_near(on_cpu, want);
  const int64_t before = emulation::layers_run();
  const Trained on_cudnn = train(network, true, cuda_device());
  expect_near(on_cudnn, want);
  if (!emulation::real()) {
    EXPECT_EQ(emulation::layers_run() - before, 3 * network.layers * kSteps);
  }
  EXPECT_EQ(train(network, true, cuda_device()).weights, on_cudnn.weights) << "the same bits again";
  Device without = cuda_device();
  without.cudnn = false;
  expect_near(train(network, true, without), want);
}

INSTANTIATE_TEST_SUITE_P(Networks, RecurrentSteps,
                         testing::Values(speech(DeepSpeech2Options::Cell::gru),
                                         speech(DeepSpeech2Options::Cell::lstm), nmt(), gnmt()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace pal::test
