// Translates with trained models: the encoder once a sentence, the decoder word by word. The search
// works on the host, between two runs of the decoder's step.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "memory/run/program_set.h"
#include "models/translation.h"
#include "train/loop/dealt.h"
#include "train/translation/beam.h"

namespace pal {

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

// How many words a search gives a sentence of so many at most.
inline int64_t longest_translation(int64_t words) { return 2 * words + 10; }

// The most probable of a row of scores that may be chosen: see Translator::greedy. A row of NaN
// ends its sentence.
int32_t likeliest(std::span<const float> scores, bool allow_unknown);
int32_t likeliest(const BestWords& row, bool allow_unknown);

// log((p_1 + ... + p_M) / M) of M models' log probabilities, added up in f32 in the order of the
// models; exactly log p where all are equal.
void average_log_probs(std::span<const float* const> models, std::span<float> out);

using Sentences = std::span<const std::vector<int32_t>>;  // ids without <s> and </s>

class Translator {
 public:
  struct Member {
    ProgramSet* programs;  // its own for every member: see TranslationScorer
    TranslationModel model;
    // Source lengths, rising, for which programs are compiled; a longer sentence gets one of its
    // own, rounded up to a multiple of 10.
    std::vector<int64_t> lengths;
  };
  // Several models with the same target vocabulary are an ensemble: the average of their
  // probabilities. `batch` sentences at a time.
  Translator(std::vector<Member> members, int64_t batch);
  Translator(ProgramSet& programs, const TranslationModel& model, int64_t batch,
             std::vector<int64_t> lengths)
      : Translator({{&programs, model, std::move(lengths)}}, batch) {}

  // The likeliest next word, again and again, until </s> or longest_translation() words.
  // Translations come in the order of the sentences; an empty sentence has an empty translation.
  // <pad> and <s> are never chosen; of equally likely words, the one with the lowest id is.
  std::vector<std::vector<int32_t>> greedy(Sentences sources, bool allow_unknown = false,
                                           const Dealt& dealt = {});

  // Adds all programs that greedy() needs for these sentences.
  void add_programs(Sentences sources);

  // Beam search within the same limit. The translations of a sentence come best first; an empty
  // sentence has one, empty and certain.
  std::vector<std::vector<Hypothesis>> beam(Sentences sources, const BeamOptions& options);
  // The same where the members read different words: sources[m] are those of member m. A sentence
  // that is empty for one member is empty for all.
  std::vector<std::vector<Hypothesis>> beam(std::span<const Sentences> sources,
                                            const BeamOptions& options);

  // The log probability of every target, </s> included, in nats. As an empty source has one
  // translation, the empty one: 0 for that, minus infinity for any other.
  std::vector<double> score(Sentences sources, Sentences targets);
  std::vector<double> score(std::span<const Sentences> sources, Sentences targets);

  // The length that a sentence is padded to at least.
  int64_t rung(int64_t length, size_t member = 0) const;

 private:
  // Goes through the sentences with words in batches of similar length: use(rows).
  template <class Use> void in_batches(std::span<const Sentences> sources, Use use) const;
  void start(std::span<const Sentences> sources, std::span<const size_t> rows, int64_t beam,
             int64_t most_steps);
  void step(std::span<const int32_t> words, std::span<const int32_t> parents = {});
  const float* log_probs();  // (rows, V)
  bool is_ensemble() const { return scorers_.size() > 1; }
  void beam_batch(std::span<const Sentences> sources, std::span<const size_t> rows,
                  const BeamOptions& options, std::vector<std::vector<Hypothesis>>& out);

  std::vector<Member> members_;
  int64_t batch_;
  std::vector<TranslationScorer> scorers_;  // of the batch at work
  std::vector<float> average_;              // (rows, V), of an ensemble
};

}  // namespace pal
