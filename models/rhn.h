// The Recurrent Highway Network as a language model (Zilly et al. 2017, section 4).
#pragma once
#include "core/builder.h"
#include "models/rhn_options.h"

namespace pal {

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
