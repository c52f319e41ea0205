// Lifetimes from touches and vector clocks; peaks by a sweep over the ends of lifetimes.
#include "memory/lifetimes.h"

#include <algorithm>
#include <tuple>

#include "core/order.h"
#include "memory/storages.h"

namespace pal {
namespace {

// The moments around nodes of any queue, seen from the compute queue.
class Moments {
 public:
  explicit Moments(const Program& program) : program_(program), order_(program) {
    if (order_.queues() == 1) return;
    for (NodeId n = 0; n < program.node_count(); ++n) {
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

struct Event {
  int64_t moment, bytes;  // bytes come (+) or go (-)
  bool operator<(const Event& other) const {  // those that go, first
    return std::tie(moment, bytes) < std::tie(other.moment, other.bytes);
  }
};

std::vector<Event> events_of(const Storages& storages, const std::vector<Lifetime>& lifetimes,
                             Space space) {
  std::vector<Event> events;
  for (size_t s = 0; s < storages.list.size(); ++s) {
    const Lifetime life = lifetimes[s];
    if (storages.list[s].space != space || life.begin >= life.end) continue;
    events.push_back({life.begin, footprint(storages.list[s])});
    events.push_back({life.end, -footprint(storages.list[s])});
  }
  std::sort(events.begin(), events.end());
  return events;
}

}  // namespace

int64_t footprint(const Storage& storage) {
  return align_up(storage.bytes) * (storage.input ? 2 : 1);
}

std::vector<Lifetime> lifetimes_of(const Program& program, const Storages& storages) {
  const Moments moments(program);
  const int64_t end = start_of(program.node_count());
  const auto touches = touches_of(program, storages);
  std::vector<Lifetime> lifetimes(storages.list.size());
  for (size_t s = 0; s < lifetimes.size(); ++s) {
    const Storage& storage = storages.list[s];
    Lifetime& life = lifetimes[s];
    if (storage.persistent || storage.input) {
      life = {0, end};
      continue;
    }
    if (touches[s].empty()) continue;
    life = {end, 0};
    for (NodeId n : touches[s]) {
      life.begin = std::min(life.begin, moments.earliest(n));
      life.end = std::max(life.end, moments.latest(n));
    }
    if (storage.output) life.end = end;
  }
  return lifetimes;
}

Peak peak_of(const Storages& storages, const std::vector<Lifetime>& lifetimes, Space space) {
  Peak peak;
  int64_t live = 0;
  for (const Event& event : events_of(storages, lifetimes, space)) {
    live += event.bytes;
    if (live > peak.bytes) peak.bytes = live, peak.moment = event.moment;
  }
  for (size_t s = 0; s < lifetimes.size(); ++s) {
    if (storages.list[s].space == space && lifetimes[s].begin <= peak.moment &&
        peak.moment < lifetimes[s].end) {
      peak.alive.push_back(StorageId(s));
    }
  }
  std::stable_sort(peak.alive.begin(), peak.alive.end(), [&](StorageId a, StorageId b) {
    return footprint(storages[a]) > footprint(storages[b]);
  });
  return peak;
}

int64_t peak_bytes(const Program& program, std::span<const int64_t> workspace_bytes, bool inplace) {
  const Storages storages = assign_storages(program, workspace_bytes, {.inplace = inplace});
  return peak_of(storages, lifetimes_of(program, storages)).bytes;
}

std::vector<int64_t> live_bytes(const Program& program, const Storages& storages,
                                const std::vector<Lifetime>& lifetimes, Space space) {
  std::vector<int64_t> live(size_t(start_of(program.node_count())), 0);
  int64_t now = 0;
  size_t filled = 0;
  for (const Event& event : events_of(storages, lifetimes, space)) {
    for (; filled < size_t(event.moment); ++filled) live[filled] = now;
    now += event.bytes;
  }
  for (; filled < live.size(); ++filled) live[filled] = now;
  return live;
}

}  // namespace pal
