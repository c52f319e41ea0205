// BERT (Devlin et al. 2019) and XLM-R (Conneau et al. 2020), whose encoder is the same but for its
// vocabulary and the number of segments; trained to guess words that are hidden from it.
#pragma once
#include "core/builder.h"
#include "models/bert_options.h"
#include "models/encoder_layers.h"

namespace pal {

BertOptions bert_base();
BertOptions xlmr_base();

// Names of the inputs.
namespace bert_input {
inline constexpr const char* kTokens = "tokens";    // i32 (S, B), some of them hidden
inline constexpr const char* kLengths = "lengths";  // i32 (B): words of each text
inline constexpr const char* kHidden = "hidden";    // i32 (S, B): what was hidden there, else 0
}  // namespace bert_input

struct BertLoss {
  Val loss;  // f32[1]: cross entropy of the hidden words, summed / scalars.tokens
  Val nll;   // f32[1]: the same in nats, summed
};

// tokens i32 (S, B), lengths i32 (B) -> (S, B, hidden). With `scalars`, the step's, dropout is
// recorded. All texts are of the first segment.
Val bert_encode(Builder& b, const BertOptions& options, Val tokens, Val lengths, Val scalars);
// (S, B, hidden) -> (B, hidden): of the first word, for classifiers on top.
Val bert_pool(Builder& b, const BertOptions& options, Val encoded);
// Records the inputs and the loss of a batch of B texts of S words. The output layer's matrix is
// that of the embedding.
BertLoss bert_loss(Builder& b, const BertOptions& options, int64_t S, int64_t B, Val scalars,
                   bool training);

}  // namespace pal
