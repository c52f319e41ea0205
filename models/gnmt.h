// GNMT (Wu et al. 2016): deep LSTM encoder and decoder with residual sums, the attention asked by
// the decoder's first layer and read by all above it. As in MLPerf's and NVIDIA's 4+4 network.
#pragma once
#include "models/translation.h"

namespace pal {

struct GnmtOptions {
  int64_t source_vocab = 0, target_vocab = 0;
  int64_t encoder_layers = 4, decoder_layers = 4;  // two at least
  int64_t hidden = 1024;
  bool share_embedding = true;  // one table for both languages
  float dropout = 0.2f;         // of every layer's input
  float init_scale = 0.1f;
  float label_smoothing = 0.1f;
  int64_t loss_chunks = 1;
  bool fused = true;  // fused cell, score and dropout; false: at the papers' granularity
};

// UsageError("model...") when sizes do not fit each other. The memory is "keys" and "values"
// (S, B, H), the states are decoder/h0, decoder/c0, .., each (B, H).
TranslationModel gnmt_model(const GnmtOptions& options);

}  // namespace pal
