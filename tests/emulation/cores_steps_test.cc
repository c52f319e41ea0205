// Whole steps of a Transformer whose attention is on tensor cores: memory passes, recordings and
// the order of threads change no bit, and the losses are the processor's but for rounding.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/scalars.h"
#include "memory/run/program_set.h"
#include "ops/attention/attention.h"
#include "tests/emulation/fixture.h"
#include "tests/support/state_bytes.h"
#include "train/loop/initialise.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"
#include "train/translation/translation_model.h"

namespace pal::test {
namespace {

using emulation::Order;

constexpr int64_t kLength = 70, kBatch = 2, kVocab = 19;
constexpr int kSteps = 3;  // run, recorded, replayed

Program recorded(const std::string& precision) {
  const Config config = parse_config(
      "model: {type: transformer, hidden: 32, ffn: 24, heads: 2, encoder_layers: 1, "
      "decoder_layers: 1, dropout: 0.1, attention_dropout: 0.2, fused: true}\ntrain: {steps: 1}",
      "cores.yaml");
  const TranslationModel translation = translation_model(config, kVocab, kVocab);
  TrainConfig train;
  train.precision = precision;
  return record_step(
      [&](Builder& b, Val s) {
        return Recorded{translation.loss(b, {kLength, kLength, kBatch}, s, true).loss};
      },
      train, MicroBatch::only);
}

struct Trained {
  std::vector<float> losses;
  std::string weights;
  int64_t attentions = 0;  // in the program, those that are computed again too
};
Trained train(const std::string& precision, Device device, const CompileOptions& options) {
  device.tf32 = precision == "tf32";
  ProgramSet programs(options, device);
  Executable& step = programs.add("step", recorded(precision));
  initialise(programs, 5);
  Trained out;
  for (const Node& node : step.program().nodes) out.attentions += node.op == &attention_op;
  for (int i = 0; i < kSteps; ++i) {
    for (const NamedValue& in : step.program().inputs) {
      const TensorSpec& spec = step.program().value(in.value).spec;
      auto* to = reinterpret_cast<int32_t*>(step.input(in.name));
      if (in.name == kScalarsInput) continue;
      for (int64_t e = 0; e < spec.numel(); ++e) {  // lengths, or words
        to[e] = int32_t(spec.shape.rank() == 1 ? kLength - 3 * e : 2 + (e * 7 + e / 5) % 15);
      }
    }
    const StepScalars scalars{
        .learning_rate = 0.01f, .step = i, .seed_low = 9, .tokens = kLength * kBatch};
    std::memcpy(step.input(kScalarsInput), &scalars, sizeof scalars);
    step.run();
    out.losses.push_back(*step.output("loss"));
  }
  out.weights += state_bytes(programs);
  return out;
}

class CoresSteps : public OnGpu {};

TEST_F(CoresSteps, PassesChangeNoBit) {
  for (const char* precision : {"bf16", "tf32"}) {
    CompileOptions options;
    options.schedule = Schedule::program, options.inplace = false;
    const Trained plain = train(precision, cuda_device(), options);
    int64_t most = 0;
    options.schedule = Schedule::lifetime, options.inplace = true;
    for (auto recompute : {Recompute::none, Recompute::sqrt, Recompute::echo}) {
      emulation::settings().order = Order(int(recompute) % 3);
      options.recompute = recompute;
      const Trained other = train(precision, cuda_device(), options);
      EXPECT_TRUE(other.losses == plain.losses && other.weights == plain.weights)
          << precision << " " << int(recompute);
      most = std::max(most, other.attentions);
    }
    EXPECT_GT(most, plain.attentions) << "no attention was computed again";
  }
}

TEST_F(CoresSteps, LossesAreTheProcessorsButForRounding) {
  const Trained exact = train("f32", cpu_device(1), {});
  for (const char* precision : {"bf16", "tf32"}) {
    const Trained rounded = train(precision, cuda_device(), {});
    for (size_t i = 0; i < kSteps; ++i) {
      const float near = std::string(precision) == "bf16" ? 0.02f : 0.002f;
      EXPECT_NEAR(rounded.losses[i], exact.losses[i], near * exact.losses[i]) << precision;
      EXPECT_NE(rounded.losses[i], exact.losses[i]) << precision;
    }
  }
}

}  // namespace
}  // namespace pal::test
