// Translation as the trainer sees it: any translation model (models/translation.h) over parallel
// text. Validation is the loss of the reference and the BLEU of a greedy translation.
#pragma once
#include <memory>
#include <optional>
#include <span>

#include "data/iterator.h"
#include "data/prefetch.h"
#include "models/translation.h"
#include "train/loop/batched_task.h"
#include "train/loop/saved_model.h"
#include "train/translation/bleu.h"
#include "train/translation/translation_data.h"
#include "train/translation/translator.h"

namespace pal {

// How well a part of the corpus is translated.
struct TranslationEvaluation {
  double loss = 0;        // nats a target word, </s> counted
  int64_t truncated = 0;  // longer than the largest bucket: the loss counts their beginning
  BleuScore bleu;         // of whole sentences against the lines of the file
  std::vector<std::string> hypotheses;
};

class TranslationTask final : public PrefetchedTask<TextBatch, TranslationData> {
 public:
  // Reads the vocabularies; all else when it is first needed (TranslationData).
  explicit TranslationTask(const Config& config, const std::filesystem::path& model_dir = {});

  int bucket_count() const override;
  std::pair<int64_t, int64_t> bucket_lengths(int bucket) const override;
  std::vector<int> largest_candidates() const override;
  Recorded record(Builder& builder, int bucket, Val scalars, bool training) const override;
  Recorded record_lengths(Builder& builder, std::pair<int64_t, int64_t> lengths, Val scalars,
                          bool training) const override;
  std::unique_ptr<Task> variant(const Config& config) const override;
  BatchInfo fill_full(Executable& program, std::pair<int64_t, int64_t> lengths) const override;
  // Metric "bleu"; five samples, evenly spread over the part.
  Validation validate(ProgramSet& programs, const std::string& part, const Dealt& dealt) override;
  void add_programs(ProgramSet& programs, const std::string& part) override;

  // Gives a set that has no training step the model's weights, by a program that is small.
  void declare_weights(ProgramSet& programs) const;
  // With a greedy translation.
  TranslationEvaluation evaluate(ProgramSet& programs, const TranslationPart& part,
                                 const Dealt& dealt = {}) const;
  // Nats a target word; `truncated` counts the pairs of which only the beginning is seen.
  double loss(ProgramSet& programs, const TranslationPart& part, const Dealt& dealt,
              int64_t& truncated) const;
  // What a Translator needs to know of this model.
  Translator::Member translator_member(ProgramSet& programs) const;
  // Sentences to translate at a time: as many as in a training batch of the longest.
  int64_t batch() const;

 private:
  TranslationTask(const Config& config, std::shared_ptr<TranslationData> data);
  Recorded record_shape(Builder& builder, const TranslationShape& shape, Val scalars,
                        bool training) const;
  Executable& nll(ProgramSet& programs, const TextBatch& batch) const;
  void start_batches() override;
  BatchInfo take(TextBatch& batch) override;
  void fill_batch(Executable& program, const TextBatch& batch) const override;

  BatchSize batch_;
  TranslationModel model_;
  std::unique_ptr<TrainIterator> iterator_;        // the prefetcher's
  std::unique_ptr<Prefetch<TextBatch>> prefetch_;  // after what it uses: it goes first
};

// A trained model, ready to translate.
using SavedNmt = SavedModel<TranslationTask>;
SavedNmt open_nmt(const std::filesystem::path& path);

}  // namespace pal
