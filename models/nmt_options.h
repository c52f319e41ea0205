// What can be chosen of the recurrent translator.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace pal {

struct NmtOptions {
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
  bool fused = true;  // fused cell, score and dropout; false: at the papers' granularity
};

constexpr auto names(NmtOptions::Attention) { return std::array{"mlp", "scaled_luong"}; }
constexpr auto names(NmtOptions::Tie) { return std::array{"none", "target", "embeddings", "all"}; }
constexpr auto names(NmtOptions::InitKind) { return std::array{"uniform", "xavier"}; }

// Why sizes do not fit each other, "model.hidden: what; what to do"; empty where they do.
std::string fault(const NmtOptions& options);

}  // namespace pal
