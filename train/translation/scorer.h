// A translation model as a search sees it: sentences go in, scores of next words come out.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "memory/run/program_set.h"
#include "models/translation.h"

namespace pal {

// How many words a search gives a sentence of so many at most.
inline int64_t longest_translation(int64_t words) { return 2 * words + 10; }

// What a search needs of a step's scores, row by row: the best words, best first, of equals the one
// with the lowest id, and the score of </s>.
struct BestWords {
  std::span<const float> scores;   // (rows, k)
  std::span<const int32_t> words;  // (rows, k)
  std::span<const float> ends;     // (rows)

  BestWords of_rows(size_t first, size_t count) const {
    const size_t k = scores.size() / ends.size();
    return {scores.subspan(first * k, count * k), words.subspan(first * k, count * k),
            ends.subspan(first, count)};
  }
};
// How many words of a row leave no doubt: as many as a beam takes of all of its rows, and the
// specials that it may not choose.
inline int64_t words_for_beam(int64_t beam) { return 2 * beam + 3; }

// The model as a search sees it: sentences go in, scores of next words come out. Each sentence has
// `beam` rows in the decoder, side by side. What the decoder goes on from stays where it is, on an
// accelerator in its memory. Its programs ("encoder/SxB"; "decoder/SxR" with R = B * beam, or
// "decoder/SxRxT" where the model has caches, of T steps; for a beam with "/beam") are added to the
// set when a length is met first.
class TranslationScorer {
 public:
  // The set must hold a program that declares the model's weights, and outlive the scorer.
  TranslationScorer(ProgramSet& programs, const TranslationModel& model, int64_t batch,
                    int64_t beam = 1)
      : programs_(programs), model_(model), batch_(batch), beam_(beam) {}

  int64_t rows() const { return batch_ * beam_; }

  // Adds the programs for sentences of `steps` words.
  void add_programs(int64_t steps, std::optional<int64_t> most_steps = {});
  // Encodes `batch` sentences: ids (steps, batch), padded with 0, and their lengths (batch); rows
  // without a sentence have length 0. At most `most_steps` calls of step() may follow; null: as
  // many as a search makes.
  void start(int64_t steps, std::span<const int32_t> source, std::span<const int32_t> lengths,
             std::optional<int64_t> most_steps = {});
  // Feeds every row its word (<s> at first). `parents`, where given: the row (of the same sentence)
  // whose state each row goes on from; not at the first step. No other program of the set may run
  // between start() and the last step(): they share their bytes.
  void step(std::span<const int32_t> words, std::span<const int32_t> parents = {});
  // Of the words that may come next, after a step and until the one after: their log probabilities,
  // (rows, target_vocab), or the best alone, which are fewer bytes to fetch from an accelerator.
  const float* log_probs() { return decoder_->output("log_probs"); }
  BestWords best();

 private:
  Executable& find_encoder(int64_t steps);
  Executable& find_decoder(int64_t steps, int64_t capacity);
  void put_parents(std::span<const int32_t> parents);

  ProgramSet& programs_;
  TranslationModel model_;
  int64_t batch_, beam_;
  Executable *encoder_ = nullptr, *decoder_ = nullptr;
  int32_t position_ = 0;              // steps made
  std::vector<int32_t> cached_rows_;  // (T, rows): where each row finds its own in the caches
};

}  // namespace pal
