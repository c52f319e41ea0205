// Translates with a trained model: the encoder once a sentence, the decoder word by word. The
// search works on the host, between two runs of the decoder's step.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "memory/program_set.h"
#include "models/nmt.h"

namespace pal {

// The model as a search sees it: sentences go in, scores of every next word come out. Its programs
// ("encoder/SxB", "decoder/SxB") are added to the set when a length is met first.
class NmtScorer {
 public:
  // The set must hold a program that declares the model's weights, and outlive the scorer.
  NmtScorer(ProgramSet& programs, const NmtOptions& model, int64_t batch)
      : programs_(programs), model_(model), batch_(batch), states_(nmt_states(model)) {}

  int64_t batch() const { return batch_; }
  const NmtOptions& model() const { return model_; }

  // Encodes `batch` sentences: ids (steps, batch), padded with 0, and their lengths (batch); rows
  // without a sentence have length 0.
  void start(int64_t steps, std::span<const int32_t> source, std::span<const int32_t> lengths);
  // Feeds every row its word (<s> at first) and returns the log probabilities of the next,
  // (batch, target_vocab), valid until the next call. No other program of the set may run between
  // start() and the last step(): they share their bytes.
  const float* step(std::span<const int32_t> words);

 private:
  ProgramSet& programs_;
  NmtOptions model_;
  int64_t batch_;
  std::vector<std::string> states_;
  Executable* decoder_ = nullptr;
  bool started_ = false;  // the states of the step before are in the decoder's outputs
};

struct TranslateOptions {
  // Whether <unk> may be chosen. A reference never holds it, so the next best word serves the
  // reader better; Marian's default, too.
  bool allow_unknown = false;
};

class Translator {
 public:
  // `lengths`: source lengths, rising, for which programs are compiled; a longer sentence gets one
  // of its own, rounded up to a multiple of 10.
  Translator(ProgramSet& programs, const NmtOptions& model, int64_t batch,
             std::vector<int64_t> lengths)
      : scorer_(programs, model, batch), lengths_(std::move(lengths)) {}

  // The likeliest next word, again and again, until </s> or 2 n + 10 words for a sentence of n.
  // Sentences and translations are ids without <s> and </s>, in the same order; an empty sentence
  // has an empty translation. <pad> and <s> are never chosen; of equally likely words, the one with
  // the lowest id is.
  std::vector<std::vector<int32_t>> greedy(std::span<const std::vector<int32_t>> sources,
                                           const TranslateOptions& options = {});

  // The length that a sentence is padded to at least.
  int64_t rung(int64_t length) const;

 private:
  void greedy_batch(std::span<const std::vector<int32_t>> sources, std::span<const size_t> rows,
                    const TranslateOptions& options, std::vector<std::vector<int32_t>>& out);

  NmtScorer scorer_;
  std::vector<int64_t> lengths_;
};

// The most probable of a row of scores that may be chosen: see Translator::greedy. A row of NaN
// ends its sentence.
int32_t likeliest(std::span<const float> scores, const TranslateOptions& options);

}  // namespace pal
