// Waits from time, and from addresses.
#include "memory/queues/waits.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "core/op.h"
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

// A region's bytes by who wrote them last, and who has read them since.
class LastUses {
 public:
  LastUses(const Program& program, int64_t bytes) : program_(program) {
    pieces_[0] = {std::max<int64_t>(bytes, 1), kNone, {kNone, kNone}};
  }

  // Whom the node has to wait for on the other queue; kNone: nobody.
  NodeId read(int64_t begin, int64_t end, NodeId n) {
    NodeId wait = kNone;
    if (begin >= end) return wait;
    const QueueId queue = program_.node(n).queue;
    auto at = cut(begin);
    for (const auto to = cut(end); at != to; ++at) {
      wait = std::max(wait, elsewhere(at->second.writer, queue));
      at->second.readers[queue] = n;
    }
    return wait;
  }
  NodeId write(int64_t begin, int64_t end, NodeId n) {
    NodeId wait = kNone;
    if (begin >= end) return wait;
    const QueueId queue = program_.node(n).queue;
    auto at = cut(begin);
    for (const auto to = cut(end); at != to; at = pieces_.erase(at)) {
      wait = std::max(wait, elsewhere(at->second.writer, queue));
      wait = std::max(wait, at->second.readers[1 - queue]);
    }
    pieces_[begin] = {end, n, {kNone, kNone}};
    return wait;
  }

 private:
  struct Piece {
    int64_t end;
    NodeId writer;
    std::array<NodeId, 2> readers;  // the last of each queue
  };

  NodeId elsewhere(NodeId n, QueueId queue) const {
    return n != kNone && program_.node(n).queue != queue ? n : NodeId(kNone);
  }
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

// What nodes read and write, at the plan's addresses.
class PlacedUses {
 public:
  PlacedUses(const Program& program, const Storages& storages, const Plan& plan)
      : program_(program),
        storages_(storages),
        plan_(plan),
        uses_{LastUses(program, plan.device().bytes), LastUses(program, plan.host().bytes)} {}

  NodeId wait_of(NodeId n) {
    const Node& node = program_.node(n);
    NodeId wait = kNone;
    for (ValueId v : present(node.in)) {
      wait = std::max(wait, uses(v).read(begin(v), begin(v) + bytes(v), n));
    }
    if (const StorageId s = storages_.workspace[n]; s != kNone) {
      const int64_t at = plan_.offset[s];
      wait = std::max(wait, uses_[0].write(at, at + storages_[s].bytes, n));
    }
    for (size_t i = 0; i < node.out.size(); ++i) {
      const ValueId v = node.out[i];
      if (v == kNone) continue;
      int64_t from = begin(v);
      for (const auto& [at, to] : in_place(node, int(i))) {
        wait = std::max(wait, uses(v).write(from, at, n));
        from = std::max(from, to);
      }
      wait = std::max(wait, uses(v).write(from, begin(v) + bytes(v), n));
    }
    return wait;
  }

 private:
  LastUses& uses(ValueId v) { return uses_[region_of(program_.value(v).space)]; }
  int64_t begin(ValueId v) const { return plan_.offset[storages_.of[v]] + storages_.offset[v]; }
  int64_t bytes(ValueId v) const { return program_.value(v).spec.bytes(); }
  // Of an output, in order: what is there without the node's doing.
  std::vector<std::pair<int64_t, int64_t>> in_place(const Node& node, int output) const {
    std::vector<std::pair<int64_t, int64_t>> out;
    for (const NodeWindow& w : windows_of(program_, node)) {
      if (w.output != output || !lies_in_place(storages_, w)) continue;
      out.emplace_back(begin(w.small), begin(w.small) + bytes(w.small));
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  const Program& program_;
  const Storages& storages_;
  const Plan& plan_;
  std::array<LastUses, kRegions> uses_;
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

Program in_time(const Program& joined, const SideBySide& run, int every) {
  Program p = ended_first(joined, run);
  std::array<int, 2> since = {every, every};  // its last wait, by queue
  for (NodeId n : run.order) {
    Node& node = p.node(n);
    const NodeId seen = run.seen[n];
    int& passed = since[node.queue];
    if (++passed < every && node.waits.empty()) continue;
    if (seen == kNone || p.node(seen).queue == node.queue) continue;
    node.waits.push_back(seen), passed = 0;
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

Program with_waits_for_bytes(const Program& joined, const SideBySide& run, const Program& timed,
                             const Storages& storages, const Plan& plan) {
  Program p = permuted(ended_first(joined, run), run.order);
  PlacedUses uses(p, storages, plan);
  ByNode<NodeId> wait;
  for (NodeId n : p.nodes.ids()) {
    wait.push_back(uses.wait_of(n));
    for (NodeId w : p.node(n).waits) wait[n] = std::max(wait[n], w);
  }
  // From the end: whoever waits, waits for the others up to the next wait of `timed` too.
  std::array<NodeId, 2> later = {kNone, kNone};
  for (NodeId n = p.node_count(); n-- > 0;) {
    NodeId& behind = later[p.node(n).queue];
    behind = std::max(behind, wait[n]);
    if (wait[n] != kNone) wait[n] = behind;
    if (!timed.node(n).waits.empty()) behind = kNone;
  }
  Known known;
  for (NodeId n : p.nodes.ids()) {
    p.node(n).waits.clear();
    if (wait[n] != kNone) p.node(n).waits = {wait[n]};
    known.reduce(p.node(n));
  }
  return p;
}

}  // namespace pal
