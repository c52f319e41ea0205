// The Recurrent Highway Network as a language model (Zilly et al. 2017, section 4).
#pragma once
#include "core/builder.h"

namespace pal {

struct RhnOptions {
  int64_t vocab = 10000, hidden = 830, depth = 10;  // the 23 million weights of table 1
  bool tied = true;  // the output layer's matrix is that of the embedding
  float input_dropout = 0.75f, output_dropout = 0.75f;
  float transform_bias = -2;  // of the gates that let new content in
  int64_t loss_chunks = 1;
};

namespace rhn_input {
inline constexpr const char* kTokens = "tokens";  // i32 (T, B)
inline constexpr const char* kNext = "next";  // i32 (T, B): the words after them; 0 counts nothing
inline constexpr const char* kState = "state";  // f32 (B, hidden): after the words before
}  // namespace rhn_input

struct RhnLoss {
  Val loss;  // f32[1]: cross entropy, summed / scalars.tokens
  Val nll;   // f32[1]: in nats, summed
};

// Records the inputs and the loss of T words of B texts, from a state of zeros. `training` puts
// dropout in.
RhnLoss rhn_loss(Builder& b, const RhnOptions& options, int64_t T, int64_t B, Val scalars,
                 bool training);

}  // namespace pal
