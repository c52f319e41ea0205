// Deep Speech 2 (Amodei et al. 2016): convolutions over a spectrogram, recurrent layers that read
// both ways, and CTC over characters. The V3 of deepspeech.pytorch is the same with LSTM cells.
#pragma once
#include <cstdint>
#include <vector>

#include "core/builder.h"
#include "models/moved_statistic.h"

namespace pal {

struct DeepSpeech2Options {
  struct Conv {
    int64_t time, bins;  // extent of the kernel, centred
    int64_t time_stride, bin_stride;
  };
  enum class Cell : uint8_t { gru, lstm };

  int64_t bins = 161;   // of a frame of features
  int64_t labels = 29;  // the blank, number 0, counts
  std::vector<Conv> convs = {{11, 41, 2, 2}, {11, 21, 1, 2}};
  int64_t channels = 32;
  Cell cell = Cell::gru;
  int64_t layers = 5, hidden = 800;  // hidden: of one direction
  bool bidirectional = true;
  bool sum_directions = true;   // else they lie side by side, 2 hidden
  int64_t fully_connected = 0;  // width of a layer between the last recurrent one and the output
  float dropout = 0;            // of what a recurrent layer hands on
  float clip = 20;              // Hardtanh(0, clip)
  float momentum = 0.1f;        // of the running statistics
  float eps = 1e-5f;
  bool fused = true;  // recurrent cells as one operator
};

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
