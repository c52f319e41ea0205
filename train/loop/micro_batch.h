// An update and its micro-batches: how many there are, which rank runs which, and how their
// gradients become one sum.
#pragma once
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "train/config/config.h"

namespace pal {

inline constexpr const char* kAccumulator = "accumulator/";  // before a weight's name, in the state

// Which micro-batch of an update a program runs: what becomes of its gradients. Every one but the
// last of a rank keeps its sum in an accumulator and updates nothing else.
struct MicroBatch {
  uint32_t adds = 0;   // accumulators that are added to it, a bit for each
  int8_t stores = -1;  // the accumulator that takes the sum; -1: weights are updated
  // Gradients grow from accumulator 0, as PyTorch's; false: they are made apart, and sums are added
  // along a binary tree.
  bool folds = true;
  bool operator==(const MicroBatch&) const = default;

  bool updates() const { return stores < 0; }
  // The kinds of an update whose gradients are folded.
  static const MicroBatch only, first, middle, last;
};
inline constexpr MicroBatch MicroBatch::only{};
inline constexpr MicroBatch MicroBatch::first{.stores = 0};
inline constexpr MicroBatch MicroBatch::middle{.adds = 1, .stores = 0};
inline constexpr MicroBatch MicroBatch::last{.adds = 1};
inline constexpr MicroBatch kMicroBatches[] = {MicroBatch::only, MicroBatch::first,
                                               MicroBatch::middle, MicroBatch::last};

// "only", "first", "middle", "last"; where sums are a tree also "carry1", "last+01".
std::string to_string(MicroBatch kind);

// train.accumulate, train.reduction: an update of a run with so many ranks.
class Update {
 public:
  // `per_node`: ranks of each machine; 0: machines are not told apart.
  Update(const TrainConfig& config, int64_t ranks, int64_t per_node = 0);

  int64_t micro_batches() const { return micro_batches_; }  // of all ranks
  int64_t ranks() const { return ranks_; }
  int64_t per_rank() const { return micro_batches_ / ranks_; }
  bool is_ordered() const { return ordered_; }
  // Whether gradients are summed inside of each machine, then between machines: where that is the
  // same tree of sums.
  bool sums_by_levels() const {
    return ordered_ && per_node_ > 1 && per_node_ < ranks_ && ranks_ % per_node_ == 0 &&
           std::has_single_bit(uint64_t(per_node_));
  }
  int64_t per_node() const { return per_node_; }
  // What gradients and their sums travel as.
  DType travels_as() const { return travels_; }
  // Whether the sums of gradients, and what the optimizer keeps, are a piece on each rank.
  bool has_pieces() const { return ranks_ > 1 && shard_ != Shard::none; }
  // Whether weights are pieces too, gathered where they are read.
  bool divides_weights() const { return ranks_ > 1 && shard_ == Shard::weights; }
  // Whether batch norm's statistics are of all ranks' micro-batches.
  bool syncs_norms() const { return ranks_ > 1 && norms_ == NormBatch::sync; }
  // Whether every micro-batch's gradients are summed over ranks, so that accumulators are pieces
  // too. Along a tree they cannot be: it needs each rank's sums by themselves.
  bool sums_each() const {
    return has_pieces() && shard_ != Shard::optimizer && !ordered_ && per_rank() > 1;
  }
  // Loss and running statistics are those of the whole update, and the last micro-batch has them.
  bool is_whole() const { return (ordered_ && micro_batches_ > 1) || ranks_ > 1; }
  // What micro-batch i of a rank's does, and all there are, each once.
  MicroBatch kind(int64_t i) const;
  MicroBatch last() const { return kind(per_rank() - 1); }
  std::vector<MicroBatch> kinds() const;
  // Sums that are kept at a time.
  int accumulators() const;

 private:
  int64_t micro_batches_, ranks_, per_node_;
  bool ordered_;
  Shard shard_;
  NormBatch norms_;
  DType travels_;
};

inline Update update_of(const Config& config) {
  return {config.train, config.ranks, config.per_node};
}

// Numbers of ranks that train.accumulate can be divided among.
std::vector<int64_t> possible_ranks(int64_t micro_batches, bool ordered);
// UsageError where an update cannot be divided among so many ranks, with numbers that can.
void check_ranks(const TrainConfig& config, int64_t ranks);

// What null stands for in a run of so many ranks: one micro-batch a rank; ordered for several.
int64_t micro_batches(const TrainConfig& config, int64_t ranks = 1);
bool is_ordered(const TrainConfig& config, int64_t ranks = 1);

}  // namespace pal
