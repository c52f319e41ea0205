// What can be chosen of the Transformer.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace pal {

struct TransformerOptions {
  // Where layer normalisation stands: after each residual sum, as in the paper, or before each
  // sublayer, with one more at the end of either stack (as tensor2tensor; Xiong et al. 2020).
  enum class Norm { post, pre };
  enum class Tie { none, target, all };

  int64_t source_vocab = 0, target_vocab = 0;
  int64_t encoder_layers = 6, decoder_layers = 6;
  int64_t hidden = 512, ffn = 2048, heads = 8;
  Norm norm = Norm::post;
  Tie tie = Tie::none;
  float dropout = 0.1f;                          // of embeddings and of what each sublayer adds
  std::optional<float> attention_dropout = {};   // of the attention's weights; null: as dropout
  std::optional<float> activation_dropout = {};  // inside the feed-forward layers; likewise
  float label_smoothing = 0;
  int64_t loss_chunks = 1;
  bool fused = true;  // attention, dropout: one operator each; false: at the papers' granularity
};

constexpr auto names(TransformerOptions::Norm) { return std::array{"post", "pre"}; }
constexpr auto names(TransformerOptions::Tie) { return std::array{"none", "target", "all"}; }

// Why sizes do not fit each other, "model.heads: what; what to do"; empty where they do.
std::string fault(const TransformerOptions& options);

}  // namespace pal
