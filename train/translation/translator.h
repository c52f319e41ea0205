// Translates with trained models: the encoder once a sentence, the decoder word by word. The search
// works on the host, between two runs of the decoder's step.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "memory/run/program_set.h"
#include "models/translation.h"
#include "train/loop/dealt.h"
#include "train/translation/beam.h"
#include "train/translation/scorer.h"

namespace pal {

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
