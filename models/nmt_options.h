// What can be chosen of the recurrent translator.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "models/option_help.h"
#include "models/rule.h"

namespace pal {

struct NmtOptions {
  static constexpr const char* kType = "nmt";
  static constexpr const char* kHelp =
      "recurrent translator with attention; learns from parallel text";

  enum class Attention { mlp, scaled_luong };
  enum class Tie { none, target, embeddings, all };
  enum class InitKind { uniform, xavier };

  int64_t source_vocab = 0, target_vocab = 0;
  int64_t embedding = 512, hidden = 512, attention_size = 512;
  int64_t encoder_layers = 2, decoder_layers = 2;
  bool bidirectional = true;  // the first encoder layer, hidden/2 each way
  bool reverse_source = false;
  bool input_feeding = true;
  Attention attention = Attention::mlp;
  Tie tie = Tie::none;
  InitKind init = InitKind::uniform;
  float init_scale = 0.1f;
  float forget_bias = 0;
  bool layer_norm = false;            // of the LSTM cells (NmtLayers::gates, NmtLayers::cell)
  bool attention_layer_norm = false;  // before the tanh of score, attention vector, first states
  float dropout = 0;                  // between layers, and before the output layer
  std::optional<float> embedding_dropout = {};  // null: as dropout
  float hidden_dropout = 0;                     // of [context; h], before the attention vector
  float label_smoothing = 0;
  int64_t loss_chunks = 1;
  bool fused = true;          // fused cell, score and dropout; false: at the papers' granularity
  bool whole_layers = false;  // all steps of an encoder's layer as one operator

  // How a configuration names the members: option(key, member, help, what is accepted).
  template <class Option> void declare(Option&& option) {
    option("fused", fused,
           "use fused LSTM-cell and attention operators; false: the papers' granularity",
           {.recordings = {"false", "true"}});
    option("whole_layers", whole_layers,
           "a layer of the encoder, all its steps, as one operator, on a GPU cuDNN's where that is "
           "found; with fused, without layer_norm");
    option("encoder_layers", encoder_layers, "LSTM layers of the encoder", {.min = 1, .max = 64});
    option("decoder_layers", decoder_layers, "LSTM layers of the decoder", {.min = 1, .max = 64});
    option("hidden", hidden, "width of every LSTM layer (both ways together)",
           {.min = 1, .max = 65536});
    option("embedding", embedding, "width of the word embeddings", {.min = 1, .max = 65536});
    option("bidirectional", bidirectional, "first encoder layer reads both ways, hidden/2 each");
    option("attention", attention,
           "score: mlp (Bahdanau) or scaled_luong (g times the dot product)");
    option("attention_size", attention_size, "width of its projections", {.min = 1, .max = 65536});
    option("input_feeding", input_feeding,
           "feed the last attention vector into the decoder's next step");
    option("dropout", dropout,
           "probability of dropping a unit between layers, and before the output layer",
           {.min = 0, .max = 1, .below_max = true});
    option("embedding_dropout", embedding_dropout, "of the word embeddings; null: as dropout",
           {.min = 0, .max = 1, .below_max = true});
    option("hidden_dropout", hidden_dropout,
           "of the context and the decoder's output, before the attention vector is made of them",
           {.min = 0, .max = 1, .below_max = true});
    option("layer_norm", layer_norm,
           "layer-normalised LSTM cells (Ba et al. 2016): the input's and the state's part of the "
           "gates, and the cell before its tanh");
    option("attention_layer_norm", attention_layer_norm,
           "layer norm before the tanh of the mlp score (which is not fused then), of the "
           "attention vector, and of the decoder's first states");
    option("loss_chunks", loss_chunks, kLossChunksHelp,
           {.min = 1, .max = 65536, .recordings = {"1", "8"}});
    option("forget_bias", forget_bias, "initial bias of the LSTM's forget gate",
           {.min = -10, .max = 10});
    option("reverse_source", reverse_source, "read the source from its end");
    option("tie_embeddings", tie,
           "share weights: target (target embedding and output layer), embeddings (source and "
           "target embedding), all (all three)");
    option("init", init, "initial weights: uniform in ±init_scale, or xavier (Glorot, uniform)");
    option("init_scale", init_scale, "half width of init: uniform",
           {.min = 0, .max = 10, .above_min = true});
  }
  static Rules<NmtOptions> rules();
};

constexpr auto names(NmtOptions::Attention) { return std::array{"mlp", "scaled_luong"}; }
constexpr auto names(NmtOptions::Tie) { return std::array{"none", "target", "embeddings", "all"}; }
constexpr auto names(NmtOptions::InitKind) { return std::array{"uniform", "xavier"}; }

// Why sizes do not fit each other, "model.hidden: what; what to do"; empty where they do.
std::string fault(const NmtOptions& options);

}  // namespace pal
