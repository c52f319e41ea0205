// The recurrent translator: an LSTM encoder, an attention, and an LSTM decoder with input feeding
// (Bahdanau et al. 2015; Luong et al. 2015; Hieber et al. 2017; the workload of Echo, section 6).
#pragma once
#include <optional>

#include "models/translation.h"

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

// UsageError("model...") when sizes do not fit each other. The memory is "keys" (S, B, A) and
// "values" (S, B, H), the states are decoder/h0, decoder/c0, ..., decoder/feed, each (B, H).
TranslationModel nmt_model(const NmtOptions& options);

}  // namespace pal
