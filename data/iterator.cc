// Shuffled and ordered passes over a corpus.
#include "data/iterator.h"

#include <algorithm>
#include <utility>

namespace pal {

TrainIterator::TrainIterator(const EncodedText& text, const BucketLadder& ladder, uint64_t seed)
    : text_(text), ladder_(ladder), order_(text.lengths(), ladder, seed, "sentence pairs") {}

bool TrainIterator::next(TextBatch& batch) {
  const BatchOrder::Batch next = order_.next();
  fill_batch(text_, next.rows, ladder_, next.bucket, batch);
  batch.position = next.position;
  batch.resume = next.resume;
  return true;
}

ValidIterator::ValidIterator(const EncodedText& text, const BucketLadder& ladder, Order order)
    : text_(text), ladder_(ladder), order_(order) {
  const int last = static_cast<int>(ladder.buckets.size()) - 1;
  for (int64_t pair = 0; pair < text.size(); ++pair) {
    const int bucket = ladder.find(text.length(pair));
    if (bucket < 0) ++truncated_;
    pairs_.push_back(static_cast<int32_t>(pair));
    buckets_.push_back(bucket < 0 ? last : bucket);
  }
  if (order == Order::corpus) return;
  const std::vector<int32_t> bucket_of = buckets_;  // by pair, before sorting
  std::stable_sort(pairs_.begin(), pairs_.end(), [&](int32_t a, int32_t b) {
    return bucket_of[static_cast<size_t>(a)] < bucket_of[static_cast<size_t>(b)];
  });
  std::sort(buckets_.begin(), buckets_.end());
}

bool ValidIterator::next(TextBatch& batch) {
  if (next_ == pairs_.size()) return false;
  // Buckets are nested: the largest index among the rows holds them all.
  int32_t bucket = buckets_[next_];
  size_t end = next_ + 1;
  while (end < pairs_.size()) {
    if (order_ == Order::bucket && buckets_[end] != bucket) break;  // a batch keeps to its bucket
    const int32_t needed = std::max(bucket, buckets_[end]);
    if (end - next_ >= static_cast<size_t>(ladder_.rows(needed))) break;
    bucket = needed;
    ++end;
  }
  fill_batch(text_, std::span(pairs_).subspan(next_, end - next_), ladder_, bucket, batch);
  next_ = end;
  return true;
}

}  // namespace pal
