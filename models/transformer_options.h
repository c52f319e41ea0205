// What can be chosen of the Transformer.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "models/option_help.h"
#include "models/rule.h"

namespace pal {

struct TransformerOptions {
  static constexpr const char* kType = "transformer";
  static constexpr const char* kHelp =
      "translator of attention and feed-forward layers; learns from parallel text";

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

  // How a configuration names the members: option(key, member, help, what is accepted).
  template <class Option> void declare(Option&& option) {
    option("fused", fused,
           "attention and dropout as one operator each, which keep nothing of the size of their "
           "masks; false: the papers' granularity",
           {.recordings = {"false", "true"}});
    option("encoder_layers", encoder_layers, "layers of the encoder", {.min = 1, .max = 256});
    option("decoder_layers", decoder_layers, "layers of the decoder", {.min = 1, .max = 256});
    option("hidden", hidden, "width of embeddings and of every layer", {.min = 1, .max = 65536});
    option("ffn", ffn, "inner width of the feed-forward layers", {.min = 1, .max = 262144});
    option("heads", heads, "heads of every attention; a divisor of hidden",
           {.min = 1, .max = 1024});
    option("norm", norm,
           "layer norm: post (after each residual sum, as in the paper) or pre (before each "
           "sublayer, and at the end of either stack)");
    option("dropout", dropout, "of embeddings and of what each sublayer adds to the sum",
           {.min = 0, .max = 1, .below_max = true});
    option("attention_dropout", attention_dropout, "of the attention's weights; null: as dropout",
           {.min = 0, .max = 1, .below_max = true});
    option("activation_dropout", activation_dropout,
           "inside the feed-forward layers, after the relu; null: as dropout",
           {.min = 0, .max = 1, .below_max = true});
    option("tie_embeddings", tie,
           "share weights: target (target embedding and output layer), all (source embedding too)");
    option("loss_chunks", loss_chunks, kLossChunksHelp,
           {.min = 1, .max = 65536, .recordings = {"1", "8"}});
  }
  static Rules<TransformerOptions> rules();
};

constexpr auto names(TransformerOptions::Norm) { return std::array{"post", "pre"}; }
constexpr auto names(TransformerOptions::Tie) { return std::array{"none", "target", "all"}; }

// Why sizes do not fit each other, "model.heads: what; what to do"; empty where they do.
std::string fault(const TransformerOptions& options);

}  // namespace pal
