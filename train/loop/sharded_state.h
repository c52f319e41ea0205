// The state of a run whose ranks have a piece each of some slots: what a checkpoint holds is whole,
// so that any number of ranks goes on from it.
#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/program.h"
#include "core/ranks/group.h"
#include "memory/run/program_set.h"

namespace pal {

class ShardedState {
 public:
  // Nothing is divided.
  ShardedState() = default;
  // `whole`: the same step of one rank, whose slots are whole. Moments and averages are divided;
  // `weights`: these too.
  ShardedState(std::shared_ptr<Group> group, const Program& whole, bool weights);

  bool writes() const { return !group_ || group_->rank() == 0; }
  // Whether the slot is this rank's piece; the spec of the whole. Of a slot of a tile or less the
  // first rank's piece is all of it, and the others' are empty.
  bool is_piece(const StateTensor& slot) const;
  bool divides_weights() const { return weights_; }
  const TensorSpec& whole(const StateTensor& slot) const;
  // The first byte of the whole that is this rank's, and how many are; of a slot that is whole,
  // all.
  std::pair<int64_t, int64_t> own(const StateTensor& slot) const;

  // Of a slot that is a piece: copies its part of the whole there.
  void take_own(const StateTensor& slot, const std::byte* whole) const;

  // Hands the bytes of the whole to `write`, in order, on rank 0. All ranks call it for the same
  // slots in the same order; the bytes travel a window at a time.
  using Write = std::function<void(const void* data, size_t bytes)>;
  void collect(const StateTensor& slot, const Write& write) const;
  // The whole, on every rank. All ranks call it.
  std::vector<std::byte> gather(const StateTensor& slot) const;

 private:
  Divided divided(const StateTensor& slot) const;

  std::shared_ptr<Group> group_;
  std::map<std::string, TensorSpec> whole_;  // of all slots
  bool weights_ = false;
};

}  // namespace pal
