// Which part of its machine's processors a rank has: a launcher may bind each rank to some of them,
// or leave all of them to all.
#pragma once
#include <cstdint>
#include <vector>

#include "core/ranks/group.h"

namespace pal {

// The processors that a rank may run on.
struct RankProcessors {
  static constexpr int kMost = 8192;  // that Linux knows
  int machine = 0;                    // as Group::machine()
  uint64_t mask[kMost / 64] = {};

  bool has(int processor) const { return mask[processor / 64] >> (processor % 64) & 1; }
  void add(int processor) { mask[processor / 64] |= uint64_t(1) << (processor % 64); }
};

// How many of them are the rank's own, at least 1: a processor is divided among the ranks of its
// machine that may run on it, and the parts are added up. So ranks with equal masks divide them,
// and those with none in common divide nothing.
int own_processors(const std::vector<RankProcessors>& ranks, int rank);
// Of this rank, whichever thread asks. All ranks call it.
int own_processors(Group& group);

}  // namespace pal
