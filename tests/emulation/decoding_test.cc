// Decoding on a GPU: what the decoder goes on from stays in the GPU's memory. The translations are
// those of the processor, and a step moves its inputs and the best words alone.
#include <cmath>
#include <cstring>

#include "core/scalars.h"
#include "data/vocabulary.h"
#include "models/nmt.h"
#include "models/transformer.h"
#include "ops/tensors/transfers.h"
#include "tests/emulation/fixture.h"
#include "tests/emulation/memory.h"
#include "train/loop/initialise.h"
#include "train/translation/translator.h"

namespace pal::test {
namespace {

using emulation::Order;

constexpr int64_t kWords = 23;

TranslationModel toy_transformer() {
  return transformer_model({.source_vocab = kWords,
                            .target_vocab = kWords,
                            .encoder_layers = 1,
                            .decoder_layers = 2,
                            .hidden = 16,
                            .ffn = 20,
                            .heads = 2});
}
TranslationModel toy_nmt() {
  NmtOptions o;
  o.source_vocab = o.target_vocab = kWords;
  o.embedding = 6, o.hidden = 8, o.attention_size = 5;
  o.init_scale = 1.5f;
  return nmt_model(o);
}

class Decoding : public OnGpu {
 protected:
  // The model's weights, drawn alike on every device, so that translations differ.
  static std::unique_ptr<ProgramSet> drawn(const TranslationModel& model, const Device& device) {
    auto set = std::make_unique<ProgramSet>(CompileOptions{}, device);
    Builder b;
    Val scalars = step_scalars(b.input(translation_input::kScalars, scalars_spec(), Space::host));
    b.output("nll", model.loss(b, {1, 1, 1}, scalars, false).nll);
    set->add("weights", b.take());
    initialise(*set, 5);
    for (const StateTensor& slot : set->state()) {
      auto* data = reinterpret_cast<float*>(slot.data);
      if (slot.name.find("_attention/w") == std::string::npos) continue;
      for (int64_t i = 0; i < slot.spec.numel(); ++i) data[i] *= 3;
    }
    return set;
  }
  static std::vector<std::vector<int32_t>> sentences() {
    std::vector<std::vector<int32_t>> all;
    for (int i = 0; i < 7; ++i) {
      all.emplace_back();
      for (int j = 0; j < 1 + i * 5 % 7; ++j) {
        all.back().push_back(int32_t(4 + (i * 3 + j * (i + 2)) % (kWords - 4)));
      }
    }
    return all;
  }
};

TEST_F(Decoding, TranslatesAsTheProcessorDoes) {
  for (const TranslationModel& model : {toy_transformer(), toy_nmt()}) {
    const auto cpu = drawn(model, cpu_device(1));
    Translator expected(*cpu, model, 3, {4, 8});
    const auto all = sentences();
    const BeamOptions options{.beam = 3, .n_best = 3};
    const auto words = expected.greedy(all);
    const auto best = expected.beam(all, options);
    for (const Order order : {Order::forward, Order::backward, Order::shuffled}) {
      emulation::settings().order = order;
      const auto gpu = drawn(model, cuda_device());
      Translator translator(*gpu, model, 3, {4, 8});
      EXPECT_EQ(translator.greedy(all), words) << int(order);
      const auto got = translator.beam(all, options);
      for (size_t i = 0; i < all.size(); ++i) {
        for (size_t n = 0; n < 3; ++n) {
          EXPECT_EQ(got[i][n].words, best[i][n].words) << int(order) << " " << i << " " << n;
          EXPECT_NEAR(got[i][n].log_prob, best[i][n].log_prob, 1e-4);
        }
      }
    }
  }
}

// Caches, the source's memory, states and log probabilities stay there.
TEST_F(Decoding, MovesInputsAndTheBestWordsAlone) {
  if (emulation::real()) GTEST_SKIP() << "the driver does not count";
  const int64_t batch = 4, beam = 2, rows = batch * beam, steps = 6;
  for (const TranslationModel& model : {toy_transformer(), toy_nmt()}) {
    const auto gpu = drawn(model, cuda_device());
    TranslationScorer scorer(*gpu, model, batch, beam);
    const std::vector<int32_t> source(size_t(steps * batch), 5), lengths(size_t(batch), steps);
    scorer.start(steps, source, lengths);
    std::vector<int32_t> words(size_t(rows), Vocabulary::kBegin), parents(size_t(rows), 0);
    int64_t most = 2 * 64 + align_up(4 * rows) * 2;  // of lengths, words, parents, position
    if (!model.caches.empty()) most += align_up(4 * rows * (longest_translation(steps) + 1));
    most += rows * (words_for_beam(beam) * 8 + 4);
    for (int n = 0; n < 5; ++n) {
      const int64_t before = emulation::bytes_linked();
      scorer.step(words, parents);
      const BestWords best = scorer.best();
      for (size_t r = 0; r < words.size(); ++r) {
        words[r] = best.of_rows(r, 1).words[0], parents[r] = int32_t(r / 2 * 2);
      }
      if (n == 0) continue;  // the first one brings what the encoder has made
      EXPECT_LE(emulation::bytes_linked() - before, most) << n;
    }
  }
}

}  // namespace
}  // namespace pal::test
