// What the trainer asks of a model and its data. The trainer knows no model; a task knows no
// memory.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/builder.h"
#include "data/batch_share.h"
#include "memory/run/program_set.h"
#include "models/moved_statistic.h"
#include "train/config/config.h"
#include "train/loop/dealt.h"

namespace pal {

// A recorded forward pass: `loss` f32[1] is differentiated; the programs' output of that name.
struct Recorded {
  Val loss;
  std::vector<std::pair<std::string, Val>> outputs = {};  // more to read back, by name
  std::vector<MovedStatistic> moved = {};  // running statistics, moved unless the step is discarded
};

// A micro-batch that the task has taken.
struct BatchInfo {
  int bucket = 0;
  double normalizer = 1;  // what its part of the loss counts: words, frames, images
  int64_t samples = 0;
  int64_t tokens = 0;  // source + target words, frames, images: for throughput
  double epoch = 0;    // passes over the data, this batch included
  bool last_of_epoch = false;
};

inline constexpr size_t kSamples = 5;  // that a report shows
// Which rows of a part they are: evenly spread.
std::vector<size_t> sample_rows(size_t count);

struct Validation {
  double loss = 0;                                      // mean nats a word (a sample)
  std::vector<std::pair<std::string, double>> metrics;  // "bleu" | "wer", "cer" | "top1", "top5"
  std::string best_by;                                  // the metric that best.safetensors follows
  bool higher_is_better = true;
  std::vector<std::pair<std::string, std::string>> samples =
      {};  // source, output: a few to look at
};

class Task {
 public:
  virtual ~Task() = default;

  // The ladder of batch shapes, smallest first; steps are compiled one a bucket.
  virtual int bucket_count() const = 0;
  virtual std::pair<int64_t, int64_t> bucket_lengths(int bucket) const = 0;  // (S, T)
  // The buckets of which one has the largest plan: the last, where each bucket's batches hold all
  // that the one before holds.
  virtual std::vector<int> largest_candidates() const { return {bucket_count() - 1}; }
  // Records the forward pass of a bucket. `scalars` is the step's scalars on the device.
  virtual Recorded record(Builder& builder, int bucket, Val scalars, bool training) const = 0;
  // Likewise for any lengths, for `pal plan --bucket`.
  virtual Recorded record_lengths(Builder& builder, std::pair<int64_t, int64_t> lengths,
                                  Val scalars, bool training) const = 0;

  // The same task, over the same data, with other options of the sections model and train: for
  // planning what they would need. Not to be trained.
  virtual std::unique_ptr<Task> variant(const Config& config) const = 0;

  // Of the micro-batches of an update it takes these alone; its position counts all of them. Before
  // the first next() and before restore().
  virtual void take_share(BatchShare share) = 0;
  // Takes the micro-batches of the next update (made ahead by a thread); fill() puts number i of
  // them into a program's inputs, all but the scalars.
  virtual const std::vector<BatchInfo>& next(int count) = 0;
  // What BatchInfo::tokens counts, for people.
  virtual const char* unit() const { return "tokens"; }
  // What the loss is a mean over, in the singular.
  virtual const char* loss_unit() const { return "word"; }
  virtual void fill(Executable& program, int i) = 0;
  // Fills a program recorded by record_lengths() with random samples that leave no padding, the
  // scalars apart: for timing steps. What it counts is as next() would count it.
  virtual BatchInfo fill_full(Executable& program, std::pair<int64_t, int64_t> lengths) const = 0;
  // Where training stands after the batches taken last, as text for the checkpoint; restore() goes
  // on from there. UsageError when the data is not what it was.
  virtual std::string position() const = 0;
  virtual void restore(const std::string& position) = 0;

  // Metrics on the "valid" or "test" part with the weights as they stand. Adds the programs it
  // needs to the set on first use. Of several ranks each runs what is dealt to it.
  virtual Validation validate(ProgramSet& programs, const std::string& part,
                              const Dealt& dealt) = 0;
  // Adds all programs that validate() needs for that part.
  virtual void add_programs(ProgramSet& programs, const std::string& part) = 0;
  // Files beside the checkpoint without which it is no use (vocabularies). Called once, when a run
  // begins.
  virtual void save_files(const std::filesystem::path& folder) const = 0;
  // A line or two for the log: corpus, vocabulary, buckets.
  virtual std::vector<std::string> describe() const = 0;
};

}  // namespace pal
