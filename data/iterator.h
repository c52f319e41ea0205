// Passes over a corpus: seeded shuffling for training, corpus order for validation.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "data/batches.h"

namespace pal {

// Shuffles in place. The order depends on (seed, stream) and the number of items alone: SplitMix64
// (Steele, Lea, Flood 2014) and Lemire's unbiased bounded integers (2019), the same on every
// platform.
void shuffle(std::span<int32_t> items, uint64_t seed, uint64_t stream);

// Endless shuffled training batches. Every epoch shuffles the pairs within each bucket, cuts them
// into batches, and shuffles the batches across buckets. Batch n of epoch e depends on (corpus,
// ladder, seed, e, n) alone, so a run resumes exactly from two numbers. The corpus and the ladder
// are referred to, and must outlive the iterator.
class TrainIterator {
 public:
  // UsageError when no pair fits the ladder. Pairs too long, or with an empty side, are left out;
  // report_ladder counts them.
  TrainIterator(const EncodedText& text, const BucketLadder& ladder, uint64_t seed);

  // The next batch; always true. Fills batch.position and batch.resume.
  bool next(TextBatch& batch);

  int64_t batches_per_epoch() const { return static_cast<int64_t>(cuts_.size()); }
  IteratorState state() const { return state_; }  // of the batch that next() will give
  // Goes on from there. UsageError when the epoch has no such batch: another corpus or ladder.
  void restore(IteratorState state);

 private:
  struct Cut {
    int bucket;
    int32_t begin, count;  // in pairs_
  };
  void start_epoch();

  const EncodedText& text_;
  const BucketLadder& ladder_;
  uint64_t seed_;
  IteratorState state_;
  bool ready_ = false;                  // the order of state_.epoch is made
  std::vector<int32_t> bucket_begins_;  // bucket i owns pairs_[begins[i], begins[i + 1])
  std::vector<int32_t> sorted_;         // pair indices by bucket, in corpus order
  std::vector<int32_t> pairs_;          // this epoch's order within buckets
  std::vector<Cut> cuts_;               // all batches of an epoch, in bucket order
  std::vector<int32_t> order_;          // this epoch's order of cuts_
};

// One pass over all pairs, none left out: those longer than the largest bucket are cut.
class ValidIterator {
 public:
  enum class Order {
    corpus,  // batches of consecutive pairs, each in the smallest bucket that holds all of them
    bucket   // bucket by bucket, corpus order within: less padding, batch.rows tells who is who
  };
  ValidIterator(const EncodedText& text, const BucketLadder& ladder, Order order = Order::corpus);

  bool next(TextBatch& batch);  // false at the end
  void rewind() { next_ = 0; }
  int64_t truncated() const { return truncated_; }  // pairs cut to fit

 private:
  const EncodedText& text_;
  const BucketLadder& ladder_;
  Order order_;
  std::vector<int32_t> pairs_;    // in the order of the pass
  std::vector<int32_t> buckets_;  // of pairs_[i]
  size_t next_ = 0;
  int64_t truncated_ = 0;
};

}  // namespace pal
