// What a translation model is to the trainer and to the search: functions that record its programs,
// the names of what goes between them, and what all models share.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/builder.h"

namespace pal {

// Lengths that a program is recorded for: source and target steps, sentences.
struct TranslationShape {
  int64_t source, target, batch;
};

struct TranslationLoss {
  Val loss;  // f32[1]: label-smoothed cross entropy, summed over real target words / scalars.tokens
  Val nll;   // f32[1]: negative log likelihood in nats, summed over real target words
};

// Names of the inputs that the programs declare.
namespace translation_input {
inline constexpr const char* kScalars = "scalars";               // i32[16] StepScalars, on the host
inline constexpr const char* kSource = "source";                 // i32 (S, B)
inline constexpr const char* kSourceLengths = "source_lengths";  // i32 (B)
inline constexpr const char* kTargetIn = "target_in";            // i32 (T, B), begins with <s>
inline constexpr const char* kTargetOut = "target_out";          // i32 (T, B), ends with </s>
inline constexpr const char* kToken = "token";                   // i32 (1, B): the step's word
inline constexpr const char* kPosition = "position";             // i32 (1): words before the step's
inline constexpr const char* kParents = "parents";               // i32 (B): rows to go on from
inline constexpr const char* kCachedRows = "cached_rows";        // i32 (T, B): rows of the caches
}  // namespace translation_input

// The inputs of a batch, declared in this order.
struct TranslationBatch {
  TranslationBatch(Builder& b, const TranslationShape& shape);
  Val source, lengths, target_in, target_out;
};

// A model over vocabularies of given sizes. All of its programs have the same weights, by name.
struct TranslationModel {
  int64_t target_vocab = 0;

  // Records the loss of a batch. `training` puts dropout and label smoothing in. `scalars` is the
  // value of the step's scalars (the caller records it as the step's first node).
  std::function<TranslationLoss(Builder&, const TranslationShape&, Val scalars, bool training)>
      loss;

  // Translation in two programs. The encoder reads source and source_lengths; its outputs are the
  // memory and, under their names, the first values of the states. A step of the decoder reads
  // source_lengths and token, outputs "log_probs" (B, V), and keeps the rest as state from one step
  // to the next, under these names:
  std::function<void(Builder&, const TranslationShape&)> encoder, decoder_step;
  std::vector<std::string> memory;  // (S, B, ..): of the source, the same at every step
  // (B, ..): a step goes on from those of its parents, and leaves its own in their place. A model
  // with states takes the input parents.
  std::vector<std::string> states;
  // (T, B, ..): row t is what step t made, (B, ..); of the rows, the first `position` are read.
  // They stay where they are: what row b goes on from is row cached_rows[t, b] of each. A model
  // with caches takes the inputs position and cached_rows, and can make T = shape.target steps.
  std::vector<std::string> caches = {};
};

// x with dropout of probability p; as it is without `scalars`, or where p is 0. Not `fused`: the
// mask and its application are nodes of their own.
Val dropped(Val x, float p, Val scalars, bool fused);

// The output layer and its loss, in `chunks` runs of rows, one after the other, added up in that
// order in f32: the same loss but for the order of its sums. x (T, B, H), targets i32 (T, B);
// `logits` records (.., H) -> (.., V). Each run's logits are read by its own nodes alone, forward
// and backward: the planner needs room for one run at a time (memory/schedule/delay_forward.h).
TranslationLoss output_loss(Val x, Val targets, Val scalars, float smoothing, int64_t chunks,
                            const std::function<Val(Val)>& logits);

}  // namespace pal
