// Batches of utterances, made by the prefetch thread: files are read, features computed and masked
// there.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/batch_order.h"
#include "data/speech_corpus.h"

namespace pal {

// What a batch is padded to.
struct SpeechExtent {
  int64_t frames, labels, batch;
};

// Rows beyond `utterances`, and those that could not be read, have no frames and no labels.
struct SpeechBatch {
  int bucket = 0;
  SpeechExtent extent{};
  std::vector<float> features;         // (B, F, bins), zeros beyond each end
  std::vector<int32_t> frames;         // (B)
  std::vector<int32_t> labels;         // (L, B)
  std::vector<int32_t> label_lengths;  // (B)
  std::vector<int32_t> rows;           // the utterance of each row; rows of padding have none
  int64_t utterances = 0;              // that could be read
  int64_t total_frames = 0;
  Faults faults;
  IteratorState position, resume;
};

// What is done to training utterances alone.
struct SpeechVariety {
  bool tempo = false;  // each is played at 0.9, 1 or 1.1 of its speed, drawn anew every epoch
  SpecAugment masks;
  uint64_t seed = 0;
};

// The utterances `rows` as a batch. With `variety`, what is drawn depends on its seed, the epoch
// and the utterance. Utterances are cut to the extent. UsageError where one cannot be read and
// faults are not to be skipped.
void fill_speech_batch(FeatureReader& reader, const std::vector<Utterance>& utterances,
                       std::span<const int32_t> rows, const SpeechExtent& extent,
                       const SpeechVariety* variety, bool skip_faults, SpeechBatch& out);

// Lengths for the ladder: frames (at the slowest tempo), and one more than there are labels, two at
// least, as a ladder takes a target of one for a sentence without a word.
std::vector<PairLength> speech_lengths(const std::vector<Utterance>& utterances, bool tempo);

}  // namespace pal
