// Deep Speech 2 (Amodei et al. 2016): convolutions over a spectrogram, recurrent layers that read
// both ways, and CTC over characters. The V3 of deepspeech.pytorch is the same with LSTM cells.
#pragma once
#include <cstdint>
#include <vector>

#include "core/builder.h"
#include "models/deepspeech2_options.h"
#include "models/moved_statistic.h"

namespace pal {

// Network steps that so many frames make.
int64_t output_steps(const DeepSpeech2Options& options, int64_t frames);

struct SpeechShape {
  int64_t frames, labels, batch;
};

namespace speech_input {
inline constexpr const char* kScalars = "scalars";             // i32[16] StepScalars, on the host
inline constexpr const char* kFeatures = "features";           // f32 (B, F, bins)
inline constexpr const char* kSteps = "steps";                 // i32 (B): output_steps of each
inline constexpr const char* kLabels = "labels";               // i32 (L, B)
inline constexpr const char* kLabelLengths = "label_lengths";  // i32 (B)
}  // namespace speech_input

struct SpeechLoss {
  Val loss;                                // f32[1]: CTC's, summed over utterances / scalars.tokens
  Val nll;                                 // f32 (B)
  Val logits;                              // f32 (T', B, labels)
  std::vector<MovedStatistic> moved = {};  // in training
};

// In training batch norm takes the batch's own statistics, over valid frames, and dropout is on.
SpeechLoss deepspeech2_loss(Builder& builder, const DeepSpeech2Options& options,
                            const SpeechShape& shape, Val scalars, bool training);

// Features and steps in, output "log_probs" (T', B, labels).
void deepspeech2_recogniser(Builder& builder, const DeepSpeech2Options& options,
                            const SpeechShape& shape);

}  // namespace pal
