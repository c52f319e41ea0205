// Language modelling as the trainer sees it: any language model over running text. Validation is
// the loss of the words that are to be guessed, and the perplexity.
#pragma once
#include <memory>

#include "train/language/language_data.h"
#include "train/loop/batched_task.h"

namespace pal {

class LanguageTask final : public BatchedTask<LanguageBatch, LanguageData> {
 public:
  explicit LanguageTask(const Config& config, const std::filesystem::path& model_dir = {});

  // One bucket, whose lengths are a sample's words, twice.
  int bucket_count() const override { return 1; }
  std::pair<int64_t, int64_t> bucket_lengths(int bucket) const override;
  Recorded record_lengths(Builder& builder, std::pair<int64_t, int64_t> lengths, Val scalars,
                          bool training) const override;
  std::unique_ptr<Task> variant(const Config& config) const override;
  const char* unit() const override { return "words"; }
  BatchInfo fill_full(Executable& program, std::pair<int64_t, int64_t> lengths) const override;
  // The validation program, which holds all weights.
  Executable& validation(ProgramSet& programs) const;
  void declare_weights(ProgramSet& programs) const { validation(programs); }
  // Metric "perplexity".
  Validation validate(ProgramSet& programs, const std::string& part, const Dealt& dealt) override;
  void add_programs(ProgramSet& programs, const std::string&) override { validation(programs); }

 private:
  LanguageTask(const Config& config, std::shared_ptr<LanguageData> data);
  int64_t batches_per_epoch() const;
  void start_batches() override { start_counting(); }  // they are made as they are taken
  BatchInfo take(LanguageBatch& batch) override;
  void fill_batch(Executable& program, const LanguageBatch& batch) const override;

  int64_t batch_;
  LanguageModel model_;
  std::vector<int64_t> order_;  // of the samples in epoch `ordered_`
  int64_t ordered_ = -1;
};

}  // namespace pal
