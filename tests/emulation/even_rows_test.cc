// Whole steps in bf16 whose vocabulary leaves the logits' rows off 16 bytes: a card's step has
// wider ones, the same bits under every option, and the processor's losses but for rounding.
#include "memory/passes/even_rows.h"

#include <gtest/gtest.h>

#include "ops/losses/cross_entropy.h"
#include "tests/emulation/fixture.h"
#include "tests/emulation/small_translator.h"

namespace pal::test {
namespace {

constexpr int64_t kLength = 10, kBatch = 14, kVocab = 477, kWide = 480;

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

struct Trained : TrainedTranslator {
  int wide = 0;  // losses of wide rows
};
Trained train(const char* model, const Device& device, const CompileOptions& options) {
  const std::string config =
      std::string("model: ") + model + "\ndata: {shared_vocabulary: true}\ntrain: {steps: 1}";
  Trained out{train_three_steps(
      {.config = config, .precision = "bf16", .length = kLength, .batch = kBatch, .vocab = kVocab},
      device, options)};
  for (const Node& node : out.program.nodes) {
    if (node.op != &cross_entropy_op) continue;
    out.wide += out.program.value(node.in[0]).spec.shape[1] == kWide;
  }
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
    for (size_t i = 0; i < narrow.losses.size(); ++i) {
      EXPECT_NEAR(wide.losses[i], narrow.losses[i], 0.01f * narrow.losses[i]) << model;
    }
    EXPECT_EQ(narrow.weights.size(), wide.weights.size()) << "a checkpoint has the same tensors";
  }
}

}  // namespace
}  // namespace pal::test
