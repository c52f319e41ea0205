// Whole steps in bf16 whose vocabulary leaves the logits' rows off 16 bytes: a card's step has
// wider ones, the same bits under every option, and the processor's losses but for rounding.
#include "memory/passes/even_rows.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/scalars.h"
#include "memory/run/program_set.h"
#include "ops/losses/cross_entropy.h"
#include "tests/emulation/fixture.h"
#include "tests/support/state_bytes.h"
#include "train/loop/initialise.h"
#include "train/loop/step_program.h"
#include "train/translation/translation_model.h"

namespace pal::test {
namespace {

constexpr int64_t kLength = 10, kBatch = 14, kVocab = 477, kWide = 480;
constexpr int kSteps = 3;  // run, recorded, replayed

const char* const kModels[] = {
    "{type: transformer, hidden: 32, ffn: 24, heads: 2, encoder_layers: 1, decoder_layers: 1, "
    "dropout: 0.1, fused: true, tie_embeddings: all}",
    "{type: transformer, hidden: 32, ffn: 24, heads: 2, encoder_layers: 1, decoder_layers: 1, "
    "dropout: 0, fused: true, tie_embeddings: none}",
    // A bias of the product's, and one that is added behind it.
    "{type: nmt, hidden: 8, embedding: 8, encoder_layers: 1, decoder_layers: 1}",
    "{type: nmt, hidden: 8, embedding: 8, encoder_layers: 1, decoder_layers: 1, "
    "tie_embeddings: target}",
};

Program recorded(const char* model, const std::string& precision) {
  const Config config = parse_config(
      std::string("model: ") + model + "\ndata: {shared_vocabulary: true}\ntrain: {steps: 1}",
      "even.yaml");
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
  int wide = 0;  // losses of wide rows
};
Trained train(const char* model, const Device& device, const CompileOptions& options) {
  ProgramSet programs(options, device);
  Executable& step = programs.add("step", recorded(model, "bf16"));
  initialise(programs, 5);
  Trained out;
  for (const Node& node : step.program().nodes) {
    if (node.op != &cross_entropy_op) continue;
    out.wide += step.program().value(node.in[0]).spec.shape[1] == kWide;
  }
  for (int i = 0; i < kSteps; ++i) {
    for (const NamedValue& in : step.program().inputs) {
      const TensorSpec& spec = step.program().value(in.value).spec;
      auto* to = reinterpret_cast<int32_t*>(step.input(in.name));
      if (in.name == kScalarsInput) continue;
      for (int64_t e = 0; e < spec.numel(); ++e) {  // lengths, or words
        to[e] = int32_t(spec.shape.rank() == 1 ? kLength - e % 4 : 2 + (e * 7 + e / 5) % 475);
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

class EvenRows : public OnGpu {};

TEST_F(EvenRows, OptionsChangeNoBit) {
  CompileOptions plain;
  plain.schedule = Schedule::program, plain.inplace = false;
  const Trained all = train(kModels[0], cuda_device(), plain);
  EXPECT_EQ(all.wide, 1);
  for (const Recompute recompute : {Recompute::none, Recompute::sqrt, Recompute::echo}) {
    CompileOptions options;
    options.recompute = recompute;
    const Trained other = train(kModels[0], cuda_device(), options);
    EXPECT_EQ(other.losses, all.losses) << int(recompute);
    EXPECT_TRUE(other.weights == all.weights) << int(recompute);
    EXPECT_GE(other.wide, 1);
  }
}

TEST_F(EvenRows, LossesAreTheProcessorsButForRounding) {
  for (const char* model : kModels) {
    const Trained narrow = train(model, cpu_device(1), {}), wide = train(model, cuda_device(), {});
    EXPECT_EQ(narrow.wide, 0) << model;
    EXPECT_EQ(wide.wide, 1) << model;
    for (size_t i = 0; i < kSteps; ++i) {
      EXPECT_NEAR(wide.losses[i], narrow.losses[i], 0.01f * narrow.losses[i]) << model;
    }
    EXPECT_EQ(narrow.weights.size(), wide.weights.size()) << "a checkpoint has the same tensors";
  }
}

}  // namespace
}  // namespace pal::test
