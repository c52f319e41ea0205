// What can be chosen of GNMT.
#pragma once
#include <cstdint>

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

}  // namespace pal
