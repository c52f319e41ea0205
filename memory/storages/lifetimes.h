// How long every storage lives, how many bytes live at once, and whose they are.
//
// A lifetime is measured in moments of the compute queue, two a node: node n starts at 2n and is
// done at 2n + 1; 2 * node_count() is the end of the step. On one queue a storage lives from the
// start of the first node that touches it until the last such node is done. With several queues it
// lives from the first moment at which its first writer may run, given what that writer is known to
// wait for, until compute has waited for its last use: the first moment that is certain to come
// later. So two storages whose lifetimes do not overlap may share bytes without further waits.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "core/memory.h"
#include "core/program.h"
#include "memory/storages/storages.h"

namespace pal {

struct Lifetime {
  int64_t begin = 0, end = 0;  // half-open, in moments

  bool contains(int64_t moment) const { return begin <= moment && moment < end; }
  bool overlaps(const Lifetime& other) const { return begin < other.end && other.begin < end; }
};

inline int64_t start_of(NodeId node) { return 2 * int64_t(node); }
inline int64_t done_of(NodeId node) { return 2 * int64_t(node) + 1; }

// By storage. State and inputs live all the time (the next batch arrives while this one runs),
// outputs to the end of the step; a storage that no node touches has an empty lifetime.
ByStorage<Lifetime> lifetimes_of(const Program& program, const Storages& storages);

// A step's memory at its peak. Sizes are aligned ones; inputs count twice (two slots).
struct Peak {
  int64_t bytes = 0;             // the largest sum of live storages: no plan can need less
  int64_t moment = 0;            // the first at which it is reached
  std::vector<StorageId> alive;  // then, largest first
};
Peak peak_of(const Storages& storages, const ByStorage<Lifetime>& lifetimes,
             Space space = Space::device);

// The peak on the device, once storages are assigned.
int64_t peak_bytes(const Program& program, const ByNode<int64_t>& workspace_bytes = {},
                   const StorageOptions& options = {});

// Bytes alive at every moment [0, 2 * nodes), for pictures.
std::vector<int64_t> live_bytes(const Program& program, const Storages& storages,
                                const ByStorage<Lifetime>& lifetimes, Space space = Space::device);

// What a storage costs in its region: its bytes, aligned, twice for inputs; 0 where it is not
// counted.
int64_t footprint(const Storage& storage);

}  // namespace pal
