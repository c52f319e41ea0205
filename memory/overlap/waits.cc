// Waits from time, and from addresses.
#include "memory/overlap/waits.h"

#include <algorithm>
#include <array>
#include <map>

#include "memory/storages/storages.h"

namespace pal {
namespace {

// Leaves out what a queue has waited for already. Of two queues.
class Known {
 public:
  void reduce(Node& node) {
    NodeId wait = kNone;
    for (NodeId w : node.waits) wait = std::max(wait, w);
    node.waits.clear();
    NodeId& known = known_[node.queue];
    if (wait == kNone || wait <= known) return;
    node.waits = {known = wait};
  }

 private:
  std::array<NodeId, 2> known_ = {kNone, kNone};
};

// A region's bytes by the last node that touches what lies there.
class LastTouch {
 public:
  LastTouch(const Program& program, int64_t bytes) : program_(program) {
    pieces_[0] = {bytes, kNone};
  }
  // Who of another queue touched these bytes last, before nodes `first` to `last` do.
  NodeId take(int64_t begin, int64_t end, NodeId first, NodeId last) {
    NodeId other = kNone;
    const QueueId mine = program_.node(first).queue;
    auto at = cut(begin);
    for (const auto to = cut(end); at != to; at = pieces_.erase(at)) {
      const NodeId n = at->second.node;
      if (n != kNone && program_.node(n).queue != mine) other = std::max(other, n);
    }
    // Who waits for `last` knows of what came before: it waited for that.
    pieces_[begin] = {end, last};
    return other;
  }

 private:
  struct Piece {
    int64_t end;
    NodeId node;
  };
  // The first piece that begins at `at` or later, which is a piece's begin from here on.
  std::map<int64_t, Piece>::iterator cut(int64_t at) {
    auto next = pieces_.lower_bound(at);
    if (next != pieces_.end() && next->first == at) return next;
    Piece& before = std::prev(next)->second;
    if (at >= before.end) return next;
    const Piece behind = before;
    before.end = at;
    return pieces_.emplace_hint(next, at, behind);
  }

  const Program& program_;
  std::map<int64_t, Piece> pieces_;
};

// The second's nodes go on on the first's queue once that has ended.
Program ended_first(const Program& joined, const SideBySide& run) {
  Program p = joined;
  NodeId end = kNone, before = kNone;  // of the first; of the second, on its own queue
  for (NodeId n : p.nodes.ids()) {
    if (p.node(n).queue == kComputeQueue) end = n;
  }
  for (NodeId n : run.order) {
    Node& node = p.node(n);
    if (node.queue == kComputeQueue) continue;
    if (run.seen[n] != end) {
      before = n;
      continue;
    }
    node.queue = kComputeQueue;
    node.waits.clear();  // the first's are before it on this queue
    if (before != kNone) node.waits = {before};
  }
  return p;
}

}  // namespace

Program in_time(const Program& joined, const SideBySide& run) {
  Program p = ended_first(joined, run);
  for (NodeId n : p.nodes.ids()) {
    const NodeId seen = run.seen[n];
    if (seen != kNone && p.node(seen).queue != p.node(n).queue) p.node(n).waits.push_back(seen);
  }
  p = permuted(p, run.order);
  Known known;
  for (Node& node : p.nodes) known.reduce(node);
  return p;
}

Program on_one_queue(const Program& joined, const SideBySide& run) {
  Program p = permuted(joined, run.order);
  for (Node& node : p.nodes) node.queue = kComputeQueue, node.waits.clear();
  return p;
}

Program with_waits_for_bytes(const Program& joined, const SideBySide& run, const Storages& storages,
                             const Plan& plan) {
  Program p = permuted(ended_first(joined, run), run.order);
  const ByStorage<std::vector<NodeId>> touches = touches_of(p, storages);
  for (const Space space : {Space::device, Space::host}) {
    std::vector<StorageId> begins;
    for (StorageId s : touches.ids()) {
      const Storage& storage = storages[s];
      if (storage.space != space || !storage.is_transient() || storage.bytes == 0) continue;
      if (!touches[s].empty()) begins.push_back(s);
    }
    std::sort(begins.begin(), begins.end(),
              [&](StorageId a, StorageId b) { return touches[a].front() < touches[b].front(); });
    LastTouch last(p, plan.regions[region_of(space)].bytes);
    for (StorageId s : begins) {
      const int64_t begin = plan.offset[s];
      const NodeId before =
          last.take(begin, begin + storages[s].bytes, touches[s].front(), touches[s].back());
      if (before != kNone) p.node(touches[s].front()).waits.push_back(before);
    }
  }
  Known known;
  for (Node& node : p.nodes) known.reduce(node);
  return p;
}

}  // namespace pal
