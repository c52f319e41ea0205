// What the tasks of all kinds of data share: they take the batches of an update, fill programs with
// them, and say where they stand in their data.
#pragma once
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "data/batches.h"
#include "data/prefetch.h"
#include "train/loop/task.h"
#include "train/run_files/position.h"

namespace pal {

// Copies numbers into a program's input. ProgramError where it takes another count.
template <class T> void put(Executable& program, const char* input, std::span<const T> numbers) {
  const TensorSpec& spec = program.input_spec(input);
  if (spec.numel() != int64_t(numbers.size())) {
    throw ProgramError(std::string("[batch] input ") + input + " takes " + to_string(spec) +
                       ", not " + std::to_string(numbers.size()) +
                       " numbers: another bucket's program");
  }
  std::memcpy(program.input(input), numbers.data(), numbers.size_bytes());
}
template <class T> void put(Executable& program, const char* input, const std::vector<T>& numbers) {
  put(program, input, std::span<const T>(numbers));
}

// A task's words for its position (train/run_files/position.h).
struct PositionWords {
  std::vector<std::string> numbers;  // "epoch", "batch"
  std::string task;                  // "[nmt]"
  std::string data;                  // "the training text, its vocabularies or its buckets"
};

// Data: what the configuration describes (ImageData, ...), which the task's variants share. It has
// fingerprint(), save(folder) and describe().
template <class Batch, class Data> class BatchedTask : public Task {
 public:
  Data& data() const { return *data_; }
  Recorded record(Builder& builder, int bucket, Val scalars, bool training) const override {
    return record_lengths(builder, bucket_lengths(bucket), scalars, training);
  }
  void take_share(BatchShare share) final { share_ = share; }
  const std::vector<BatchInfo>& next(int count) final {
    batches_.resize(size_t(count));
    infos_.clear();
    if (!started_) start_batches();
    started_ = true;
    for (Batch& batch : batches_) infos_.push_back(take(batch));
    return infos_;
  }
  void fill(Executable& program, int i) final { fill_batch(program, batches_.at(size_t(i))); }
  std::string position() const final {
    std::vector<std::pair<std::string, int64_t>> numbers;
    for (size_t i = 0; i < position_.size(); ++i) {
      numbers.emplace_back(words_.numbers[i], position_[i]);
    }
    return position_text(numbers, data_->fingerprint());
  }
  void save_files(const std::filesystem::path& folder) const final { data_->save(folder); }
  std::vector<std::string> describe() const final { return data_->describe(); }
  void restore(const std::string& position) final {
    position_ =
        read_position(position, words_.numbers, data_->fingerprint(), words_.task, words_.data);
    start_batches();
    started_ = true;
  }

 protected:
  BatchedTask(PositionWords words, const Config& config, std::shared_ptr<Data> data)
      : words_(std::move(words)),
        seed_(static_cast<uint64_t>(*config.train.seed)),
        data_(std::move(data)),
        position_(words_.numbers.size()) {}

  // Begins to make batches from position_ on.
  virtual void start_batches() = 0;
  // The next batch; moves position_ behind it.
  virtual BatchInfo take(Batch& batch) = 0;
  // All inputs of a program but the scalars.
  virtual void fill_batch(Executable& program, const Batch& batch) const = 0;

  // For a task whose position is one number of batches, `each` of which are an epoch.
  void start_counting() { first_ = position_[0], taken_ = 0; }
  int64_t number_of(int64_t own) const { return first_ + share_.number(own); }
  // Counts a batch that was taken; info's epoch is that of the position behind it.
  void count_taken(int64_t each, BatchInfo& info) {
    const int64_t before = position_[0];
    position_[0] = first_ + share_.done(++taken_);
    info.epoch = double(position_[0]) / double(each);
    info.last_of_epoch = position_[0] / each > before / each;
  }
  int64_t taken() const { return taken_; }

  const PositionWords words_;
  const uint64_t seed_;
  std::shared_ptr<Data> data_;
  std::vector<int64_t> position_;  // as words_.numbers says
  BatchShare share_;

 private:
  int64_t first_ = 0, taken_ = 0;  // the position at which counting began, and its own since
  bool started_ = false;
  std::vector<Batch> batches_;
  std::vector<BatchInfo> infos_;
};

// A task whose batches one thread makes in the order of a BatchOrder: it stands at a batch of an
// epoch. Batch::resume says what follows a batch.
template <class Batch, class Data> class PrefetchedTask : public BatchedTask<Batch, Data> {
 protected:
  PrefetchedTask(const std::string& task, const std::string& what, const Config& config,
                 std::shared_ptr<Data> data)
      : BatchedTask<Batch, Data>({{"epoch", "batch"}, task, what}, config, std::move(data)) {}

  IteratorState resume() const { return {this->position_[0], this->position_[1]}; }
  // Takes a batch, and says where it stands.
  BatchInfo take_from(Prefetch<Batch>& prefetch, Batch& batch, int64_t batches_per_epoch) {
    if (!prefetch.next(batch)) {
      throw ProgramError(this->words_.task + " the training batches came to an end");
    }
    const auto [epoch, done] = batch.resume;
    const int64_t before = this->position_[0];
    this->position_ = {epoch, done};
    return {.bucket = batch.bucket,
            .epoch = double(epoch) + double(done) / double(batches_per_epoch),
            .last_of_epoch = epoch > before};
  }
};

}  // namespace pal
