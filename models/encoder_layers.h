// Layers of Transformer encoders as BERT and ViT have them: attention with biases, and GELU.
#pragma once
#include <string>

#include "core/builder.h"

namespace pal {

struct EncoderLayerOptions {
  int64_t hidden = 768, ffn = 3072, heads = 12;
  float eps = 1e-12f;  // of layer norm
  // Where layer norm stands: before each sublayer (ViT), or after each residual sum (BERT).
  bool pre = false;
  float dropout = 0, attention_dropout = 0;
};

class EncoderLayers {
 public:
  // With `scalars`, the step's, dropout is recorded.
  EncoderLayers(Builder& builder, const EncoderLayerOptions& options, Val scalars)
      : b_(builder), o_(options), scalars_(scalars) {}

  // x (S, B, D) -> (S, B, D); the first lengths[b] rows of sentence b count, i32 (B), absent: all.
  Val layer(const std::string& name, Val x, Val lengths = {});
  Val norm(const std::string& name, Val x);
  Val linear(const std::string& name, Val x, int64_t out);  // (.., C) -> (.., out)
  Val dropout(Val x);

 private:
  Val attend(Val x, Val lengths);
  Val feed_forward(Val x);

  Builder& b_;
  const EncoderLayerOptions o_;
  Val scalars_;
};

}  // namespace pal
