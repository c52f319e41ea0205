// What the ranks of a run add up: gradients, losses, and the running statistics of their
// micro-batches. Where there is one rank, sums are what they were.
#pragma once
#include <string>
#include <vector>

#include "core/builder.h"
#include "models/moved_statistic.h"
#include "train/loop/micro_batch.h"

namespace pal {

// Bytes of gradients that travel together: train.bucket.
int64_t bucket_bytes(const TrainConfig& config);

// What ranks exchange in a program, in order, as text: those of an update must have the same.
std::string exchanges_of(const Program& program);

// Numbers of tensors, bucket by bucket, from the last to the first: about as a backward pass makes
// gradients, so that a bucket is full early, and in every program the same.
std::vector<std::vector<size_t>> buckets_of(const std::vector<Val>& tensors, int64_t most);
// The tensors of a bucket.
std::vector<Val> tensors_at(const std::vector<Val>& tensors, const std::vector<size_t>& numbers);

// f32[1] -> the sum over ranks, along a tree, on every rank the same.
Val sum_over_ranks(Val loss, const Update& update);
// Gradients of every rank -> their sums: whole on every rank, or where train.shard divides them
// each rank's piece. They travel in buckets, from the last to the first. Ordered: every rank adds
// its pieces along a tree.
std::vector<Val> sum_over_ranks(Builder& b, const std::vector<Val>& gradients, const Update& update,
                                int64_t bucket_bytes);

// f32[1] each -> the sums of squares of gradients that are pieces; the bits of sum_of_squares of
// the whole gradients, which are like `wholes`.
std::vector<Val> squares_of_pieces(const std::vector<Val>& pieces, const std::vector<Val>& wholes,
                                   const Update& update);
// Updates: the newest values of weights, of which each rank has changed its piece, whole again.
void gather_weights(Builder& b, const std::vector<Val>& weights, const Update& update,
                    int64_t bucket_bytes);

// What the micro-batches of an update say of running statistics, kept until its end: then all of
// them are applied in the order of the micro-batches, on every rank the same.
class KeptStatistics {
 public:
  // Declares the state that keeps them, and puts this micro-batch's there; the last of a rank gets
  // those of all ranks, where each has its own.
  KeptStatistics(Builder& b, const Update& update, MicroBatch kind,
                 const std::vector<MovedStatistic>& moved, Val scalars);
  // At the end of the update.
  void move(Val gate) const;

 private:
  // Of statistics that all ranks have made together.
  void require_same_on_ranks() const;

  Builder& b_;
  const std::vector<MovedStatistic>& moved_;
  std::vector<Val> rows_;  // (micro-batches of this rank, or of all, ..), by statistic
};

}  // namespace pal
