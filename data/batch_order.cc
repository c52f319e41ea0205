// Shuffling, and cutting buckets into batches.
#include "data/batch_order.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "core/error.h"

namespace pal {
namespace {

// SplitMix64's output function; also turns (seed, stream) into a starting point.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t state) : state_(state) {}

  // Uniform in [0, bound), bound > 0; rejects the few values that would favour some results.
  uint32_t below(uint32_t bound) {
    uint64_t product = uint64_t{next32()} * bound;
    if (static_cast<uint32_t>(product) < bound) {
      const uint32_t threshold = (0u - bound) % bound;
      while (static_cast<uint32_t>(product) < threshold) product = uint64_t{next32()} * bound;
    }
    return static_cast<uint32_t>(product >> 32);
  }

 private:
  uint32_t next32() {
    state_ += 0x9E3779B97F4A7C15u;
    return static_cast<uint32_t>(mix(state_) >> 32);
  }

  uint64_t state_;
};

}  // namespace

void shuffle(std::span<int32_t> items, uint64_t seed, uint64_t stream) {
  SplitMix64 random(mix(mix(seed + 0x9E3779B97F4A7C15u) + stream));
  for (size_t left = items.size(); left > 1; --left) {  // Fisher and Yates, from the end
    std::swap(items[left - 1], items[random.below(static_cast<uint32_t>(left))]);
  }
}

BatchOrder::BatchOrder(std::span<const PairLength> lengths, const BucketLadder& ladder,
                       uint64_t seed, const char* items)
    : seed_(seed) {
  const size_t buckets = ladder.buckets.size();
  std::vector<std::vector<int32_t>> members(buckets);
  for (size_t item = 0; item < lengths.size(); ++item) {
    const int bucket = ladder.find(lengths[item]);
    if (bucket < 0 || is_empty_pair(lengths[item])) continue;
    members[static_cast<size_t>(bucket)].push_back(static_cast<int32_t>(item));
  }
  bucket_begins_.push_back(0);
  for (size_t bucket = 0; bucket < buckets; ++bucket) {
    sorted_.insert(sorted_.end(), members[bucket].begin(), members[bucket].end());
    const int32_t begin = bucket_begins_.back(), end = static_cast<int32_t>(sorted_.size());
    const int32_t rows = ladder.rows(static_cast<int>(bucket));
    for (int32_t at = begin; at < end; at += rows) {
      cuts_.push_back({static_cast<int>(bucket), at, std::min(rows, end - at)});
    }
    bucket_begins_.push_back(end);
  }
  if (cuts_.empty()) {
    throw UsageError("[data] none of " + std::to_string(lengths.size()) + " " + items +
                     " fits the buckets " + ladder.print() +
                     "; raise the maximum length or check the corpus");
  }
  items_.resize(sorted_.size());
  order_.resize(cuts_.size());
}

void BatchOrder::start_epoch() {
  // Streams of epoch e: one for the order of batches, one for each bucket.
  const uint64_t stream = static_cast<uint64_t>(state_.epoch) * (kMostBuckets + 1);
  std::copy(sorted_.begin(), sorted_.end(), items_.begin());
  for (size_t bucket = 0; bucket + 1 < bucket_begins_.size(); ++bucket) {
    const size_t begin = static_cast<size_t>(bucket_begins_[bucket]);
    const size_t end = static_cast<size_t>(bucket_begins_[bucket + 1]);
    shuffle(std::span(items_).subspan(begin, end - begin), seed_, stream + 1 + bucket);
  }
  std::iota(order_.begin(), order_.end(), 0);
  shuffle(order_, seed_, stream);
  ready_ = true;
}

void BatchOrder::pass_over(int64_t batches) {
  const int64_t at = state_.batch_in_epoch + batches, each = batches_per_epoch();
  ready_ = ready_ && at < each;
  state_ = {state_.epoch + at / each, at % each};
}

BatchOrder::Batch BatchOrder::next() {
  if (taken_ % share_.count == 0) pass_over(share_.first);
  if (!ready_) start_epoch();
  const Cut cut = cuts_[static_cast<size_t>(order_[static_cast<size_t>(state_.batch_in_epoch)])];
  Batch batch{
      cut.bucket, std::span(items_).subspan(size_t(cut.begin), size_t(cut.count)), state_, {}};
  pass_over(1);
  if (++taken_ % share_.count == 0) pass_over(share_.of - share_.first - share_.count);
  batch.resume = state_;
  return batch;
}

void BatchOrder::restore(IteratorState state) {
  if (state.epoch < 0 || state.batch_in_epoch < 0 || state.batch_in_epoch >= batches_per_epoch()) {
    throw UsageError("[data] cannot resume at batch " + std::to_string(state.batch_in_epoch) +
                     " of epoch " + std::to_string(state.epoch) + ": an epoch has " +
                     std::to_string(batches_per_epoch()) +
                     " batches; resume with the corpus and data section of the first run");
  }
  ready_ = ready_ && state.epoch == state_.epoch;
  state_ = state;
}

}  // namespace pal
