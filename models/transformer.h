// The Transformer: an encoder and a decoder of attention and feed-forward layers (Vaswani et al.
// 2017, "Attention is all you need").
#pragma once
#include "models/translation.h"

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
  float dropout = 0.1f;             // of embeddings and of what each sublayer adds
  float attention_dropout = 0.1f;   // of the attention's weights
  float activation_dropout = 0.1f;  // inside the feed-forward layers
  float label_smoothing = 0;
  int64_t loss_chunks = 1;
  bool fused = true;  // attention, dropout: one operator each; false: at the papers' granularity
};

// UsageError("model...") when sizes do not fit each other. The memory is keys and values of every
// decoder layer's attention to the source, the caches those of its attention to the target.
TranslationModel transformer_model(const TransformerOptions& options);

}  // namespace pal
