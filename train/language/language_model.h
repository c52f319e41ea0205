// The language model that a configuration describes.
#pragma once
#include <functional>

#include "core/builder.h"
#include "train/config/config.h"

namespace pal {

struct LanguageLoss {
  Val loss;  // f32[1]: cross entropy of the words that are to be guessed, summed / scalars.tokens
  Val nll;   // f32[1]: the same in nats, summed
};

struct LanguageModel {
  // Hidden words are guessed (inputs of bert_input), or next ones (rhn_input).
  bool hides = false;
  float hide = 0;    // with this probability
  int32_t mask = 0;  // what stands where a word was
  // Of B texts of S words.
  std::function<LanguageLoss(Builder&, int64_t S, int64_t B, Val scalars, bool training)> loss;
};

// By model.type, over a vocabulary of this size (specials included). UsageError when options do not
// fit each other.
LanguageModel language_model(const Config& config, int64_t vocab);

}  // namespace pal
