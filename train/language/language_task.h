// Language modelling as the trainer sees it: any language model over running text. Validation is
// the loss of the words that are to be guessed, and the perplexity.
#pragma once
#include <memory>

#include "train/language/language_data.h"
#include "train/loop/task.h"

namespace pal {

class LanguageTask final : public Task {
 public:
  explicit LanguageTask(const Config& config, const std::filesystem::path& model_dir = {});

  // One bucket, whose lengths are a sample's words, twice.
  int bucket_count() const override { return 1; }
  std::pair<int64_t, int64_t> bucket_lengths(int bucket) const override;
  Recorded record(Builder& builder, int bucket, Val scalars, bool training) const override;
  Recorded record_lengths(Builder& builder, std::pair<int64_t, int64_t> lengths, Val scalars,
                          bool training) const override;
  std::unique_ptr<Task> variant(const Config& config) const override;
  const std::vector<BatchInfo>& next(int count) override;
  const char* unit() const override { return "words"; }
  void fill(Executable& program, int i) override;
  BatchInfo fill_full(Executable& program, std::pair<int64_t, int64_t> lengths) const override;
  std::string position() const override;
  void restore(const std::string& position) override;
  // The validation program, which holds all weights.
  Executable& validation(ProgramSet& programs) const;
  // Metric "perplexity".
  Validation validate(ProgramSet& programs, const std::string& part) override;
  void save_files(const std::filesystem::path& folder) const override;
  std::vector<std::string> describe() const override;

 private:
  LanguageTask(const Config& config, std::shared_ptr<LanguageData> data);
  int64_t batches_per_epoch() const;
  void put(Executable& program, const LanguageBatch& batch) const;

  int64_t batch_;
  uint64_t seed_;
  std::shared_ptr<LanguageData> data_;  // shared with variants
  LanguageModel model_;
  int64_t next_ = 0;            // the number of the batch after those taken last
  std::vector<int64_t> order_;  // of the samples in epoch `ordered_`
  int64_t ordered_ = -1;
  std::vector<LanguageBatch> batches_;
  std::vector<BatchInfo> infos_;
};

}  // namespace pal
