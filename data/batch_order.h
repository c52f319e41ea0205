// The order of training batches: which items come together, and when. What an item is, its caller
// knows.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "data/batch_share.h"
#include "data/batches.h"

namespace pal {

// Shuffles in place. The order depends on (seed, stream) and the number of items alone: SplitMix64
// (Steele, Lea, Flood 2014) and Lemire's unbiased bounded integers (2019), the same on every
// platform.
void shuffle(std::span<int32_t> items, uint64_t seed, uint64_t stream);

// Endless shuffled batches. Every epoch shuffles the items within each bucket, cuts them into
// batches, and shuffles the batches across buckets. Batch n of epoch e depends on (lengths, ladder,
// seed, e, n) alone, so a run resumes exactly from two numbers. The ladder is referred to, and must
// outlive the order.
class BatchOrder {
 public:
  // UsageError when no item fits the ladder, in which `items` names them: "sentence pairs". Items
  // too long, or with an empty side, are left out.
  BatchOrder(std::span<const PairLength> lengths, const BucketLadder& ladder, uint64_t seed,
             const char* items);

  struct Batch {
    int bucket = 0;
    std::span<const int32_t> rows;  // items, until the next call
    IteratorState position, resume;
  };
  Batch next();

  int64_t batches_per_epoch() const { return static_cast<int64_t>(cuts_.size()); }
  IteratorState state() const { return state_; }  // of the batch that next() will give
  // Goes on from there. UsageError when the epoch has no such batch: other data or another ladder.
  void restore(IteratorState state);
  // From where it stands now, next() gives those of a share alone, and resume counts the others
  // too.
  void take_share(BatchShare share) { share_ = share, taken_ = 0; }

 private:
  struct Cut {
    int bucket;
    int32_t begin, count;  // in items_
  };
  void start_epoch();
  void pass_over(int64_t batches);

  BatchShare share_;
  int64_t taken_ = 0;
  uint64_t seed_;
  IteratorState state_;
  bool ready_ = false;                  // the order of state_.epoch is made
  std::vector<int32_t> bucket_begins_;  // bucket i owns items_[begins[i], begins[i + 1])
  std::vector<int32_t> sorted_;         // items by bucket, in their own order
  std::vector<int32_t> items_;          // this epoch's order within buckets
  std::vector<Cut> cuts_;               // all batches of an epoch, in bucket order
  std::vector<int32_t> order_;          // this epoch's order of cuts_
};

}  // namespace pal
