// Passes over a corpus: seeded shuffling for training, corpus order for validation.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "data/batch_order.h"

namespace pal {

// Endless shuffled training batches, in the order that BatchOrder says. The corpus and the ladder
// are referred to, and must outlive the iterator.
class TrainIterator {
 public:
  // UsageError when no pair fits the ladder. Pairs too long, or with an empty side, are left out;
  // report_ladder counts them.
  TrainIterator(const EncodedText& text, const BucketLadder& ladder, uint64_t seed);

  // The next batch; always true. Fills batch.position and batch.resume.
  bool next(TextBatch& batch);

  int64_t batches_per_epoch() const { return order_.batches_per_epoch(); }
  IteratorState state() const { return order_.state(); }  // of the batch that next() will give
  // Goes on from there. UsageError when the epoch has no such batch: another corpus or ladder.
  void restore(IteratorState state) { order_.restore(state); }
  void take_share(BatchShare share) { order_.take_share(share); }

 private:
  const EncodedText& text_;
  const BucketLadder& ladder_;
  BatchOrder order_;
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
