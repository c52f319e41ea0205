// Lifetimes from touches and vector clocks; peaks by a sweep over the ends of lifetimes.
#include "memory/storages/lifetimes.h"

#include <algorithm>
#include <numeric>

#include "core/order.h"

namespace pal {
namespace {

// The moments around nodes of any queue, seen from the compute queue.
class Moments {
 public:
  explicit Moments(const Program& program) : program_(program), order_(program) {
    if (order_.queues() == 1) return;
    for (NodeId n : program.nodes.ids()) {
      if (program.node(n).queue == kComputeQueue) compute_.push_back(n);
    }
  }

  // Everything that was over before this moment is over when the node starts.
  int64_t earliest(NodeId n) const {
    if (program_.node(n).queue == kComputeQueue) return start_of(n);
    auto at = std::partition_point(compute_.begin(), compute_.end(),
                                   [&](NodeId c) { return c < n && order_.before(c, n); });
    return at == compute_.begin() ? 0 : done_of(*(at - 1));
  }
  // The node is done at this moment.
  int64_t latest(NodeId n) const {
    if (program_.node(n).queue == kComputeQueue) return done_of(n);
    auto at = std::partition_point(compute_.begin(), compute_.end(),
                                   [&](NodeId c) { return c < n || !order_.before(n, c); });
    return at == compute_.end() ? start_of(program_.node_count()) : start_of(*at);
  }

 private:
  const Program& program_;
  const Order order_;
  std::vector<NodeId> compute_;
};

// By moment: the bytes that come less those that go, which go first. One more moment than any
// lifetime has.
std::vector<int64_t> changes_of(const Storages& storages, const ByStorage<Lifetime>& lifetimes,
                                Space space) {
  int64_t end = 0;
  for (const Lifetime& life : lifetimes) end = std::max(end, life.end);
  std::vector<int64_t> changes(size_t(end) + 1, 0);
  for (StorageId s : lifetimes.ids()) {
    const Lifetime life = lifetimes[s];
    if (storages[s].space != space || life.begin >= life.end) continue;
    changes[size_t(life.begin)] += footprint(storages[s]);
    changes[size_t(life.end)] -= footprint(storages[s]);
  }
  return changes;
}

}  // namespace

int64_t footprint(const Storage& storage) {
  if (!storage.counted) return 0;
  return align_up(storage.bytes) * (storage.input ? 2 : 1);
}

ByStorage<Lifetime> lifetimes_of(const Program& program, const Storages& storages) {
  const Moments moments(program);
  const int64_t end = start_of(program.node_count());
  ByStorage<Lifetime> lifetimes(storages.list.size(), {end, 0});
  for (NodeId n : program.nodes.ids()) {
    const Lifetime now{moments.earliest(n), moments.latest(n)};
    auto touch = [&](StorageId s) {
      Lifetime& life = lifetimes[s];
      life = {std::min(life.begin, now.begin), std::max(life.end, now.end)};
    };
    for (ValueId v : present(program.node(n).in)) touch(storages.of[v]);
    for (ValueId v : present(program.node(n).out)) touch(storages.of[v]);
    if (storages.workspace[n] != kNone) touch(storages.workspace[n]);
  }
  for (StorageId s : lifetimes.ids()) {
    const Storage& storage = storages[s];
    Lifetime& life = lifetimes[s];
    if (!storage.is_transient()) {
      life = {0, end};
    } else if (life.begin >= life.end) {
      life = {};  // no node touches it
    } else if (storage.output) {
      life.end = end;
    }
  }
  return lifetimes;
}

Peak peak_of(const Storages& storages, const ByStorage<Lifetime>& lifetimes, Space space) {
  Peak peak;
  int64_t live = 0;
  const std::vector<int64_t> changes = changes_of(storages, lifetimes, space);
  for (size_t moment = 0; moment < changes.size(); ++moment) {
    live += changes[moment];
    if (live > peak.bytes) peak.bytes = live, peak.moment = int64_t(moment);
  }
  for (StorageId s : lifetimes.ids()) {
    if (storages[s].space == space && lifetimes[s].contains(peak.moment)) peak.alive.push_back(s);
  }
  std::stable_sort(peak.alive.begin(), peak.alive.end(), [&](StorageId a, StorageId b) {
    return footprint(storages[a]) > footprint(storages[b]);
  });
  return peak;
}

int64_t peak_bytes(const Program& program, const ByNode<int64_t>& workspace_bytes,
                   const StorageOptions& options) {
  const Storages storages = assign_storages(program, workspace_bytes, options);
  return peak_of(storages, lifetimes_of(program, storages)).bytes;
}

std::vector<int64_t> live_bytes(const Program& program, const Storages& storages,
                                const ByStorage<Lifetime>& lifetimes, Space space) {
  std::vector<int64_t> live = changes_of(storages, lifetimes, space);
  std::partial_sum(live.begin(), live.end(), live.begin());
  live.resize(size_t(start_of(program.node_count())), live.empty() ? 0 : live.back());
  return live;
}

}  // namespace pal
