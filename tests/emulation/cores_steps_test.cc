// Whole steps of a Transformer whose attention is on tensor cores: memory passes, recordings and
// the order of threads change no bit, and the losses are the processor's but for rounding.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/attention/attention.h"
#include "tests/emulation/fixture.h"
#include "tests/emulation/small_translator.h"
#include "train/loop/run_options.h"

namespace pal::test {
namespace {

using emulation::Order;

struct Trained : TrainedTranslator {
  int64_t attentions = 0;  // in the program, those that are computed again too
};
Trained train(const std::string& precision, const Device& device, const CompileOptions& options) {
  Trained out{train_three_steps(
      {.config = "model: {type: transformer, hidden: 32, ffn: 24, heads: 2, encoder_layers: 1, "
                 "decoder_layers: 1, dropout: 0.1, attention_dropout: 0.2, fused: true}\n"
                 "train: {steps: 1}",
       .precision = precision,
       .length = 70,
       .batch = 2,
       .vocab = 19,
       .shorter = 3},
      device, options)};
  for (const Node& node : out.program.nodes) out.attentions += node.op == &attention_op;
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
    for (size_t i = 0; i < exact.losses.size(); ++i) {
      const float near = std::string(precision) == "bf16" ? 0.02f : 0.002f;
      EXPECT_NEAR(rounded.losses[i], exact.losses[i], near * exact.losses[i]) << precision;
      EXPECT_NE(rounded.losses[i], exact.losses[i]) << precision;
    }
  }
}

}  // namespace
}  // namespace pal::test
