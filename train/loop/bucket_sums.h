// Gradients of every rank, bucket by bucket, to their sums. What becomes of a bucket's first sums
// comes behind those of the next bucket, so that an exchange need not wait for what was just added
// up; where sums go by levels and are gathered, the gather one bucket later still.
#pragma once
#include <optional>
#include <vector>

#include "core/builder.h"
#include "core/val.h"
#include "train/loop/micro_batch.h"

namespace pal {

// The numbers of a bucket's gradients among all, and the gradients or their sums.
struct SummedBucket {
  std::vector<size_t> numbers;
  std::vector<Val> sums;
};

class BucketSums {
 public:
  BucketSums(Builder& b, const Update& update) : b_(b), update_(update) {}

  // Of more than one rank. Each begins the exchange of a bucket, or goes on with those that were
  // begun, and returns the bucket whose sums are there by that: whole, or with train.shard each
  // rank's pieces. They come in the order in which they were added. next(): nothing once all did.
  std::optional<SummedBucket> add(const SummedBucket& bucket);
  std::optional<SummedBucket> next();

 private:
  struct UnderWay {
    SummedBucket own;  // this rank's gradients
    std::vector<Val> sums;
  };

  std::optional<SummedBucket> go_on(std::optional<UnderWay> next);
  SummedBucket with_role(SummedBucket bucket);

  Builder& b_;
  const Update& update_;
  std::optional<UnderWay> summed_, to_gather_;
};

}  // namespace pal
