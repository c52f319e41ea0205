// One scheduler for both directions: bytes that a node would add are kept up to date as others are
// placed, and can only become fewer, so heaps need no entries changed, only new ones pushed.
#include "memory/schedule/list.h"

#include <algorithm>
#include <queue>

namespace pal {
namespace {

class ListScheduler {
 public:
  ListScheduler(const OrderGraph& graph, const ListRule& rule, const std::vector<NodeId>& guide)
      : graph_(graph),
        rule_(rule),
        before_(rule.from_end ? graph.after : graph.before),
        after_(rule.from_end ? graph.before : graph.after) {
    const size_t nodes = size_t(graph.nodes()), storages = graph.bytes.size();
    rank_.resize(nodes), added_.assign(nodes, 0), missing_.resize(nodes), placed_.assign(nodes, 0);
    for (size_t i = 0; i < nodes; ++i) {
      rank_[guide[i]] = rule.from_end ? int64_t(nodes - i) : int64_t(i);
    }
    left_.resize(storages), rest_.assign(storages, 0), alive_.assign(storages, 0);
    for (StorageId s : graph.bytes.ids()) {
      const auto touchers = graph.touchers[s];
      left_[s] = int32_t(touchers.size());
      alive_[s] = rule.from_end && graph.kept[s];
      for (NodeId n : touchers) {
        rest_[s] ^= n;
        if (!alive_[s]) added_[n] += graph.bytes[s];
      }
      if (left_[s] == 1 && dies(s)) added_[touchers[0]] -= graph.bytes[s];
    }
    for (NodeId n : missing_.ids()) missing_[n] = int32_t(before_[n].size());
  }

  std::vector<NodeId> run() {
    for (NodeId n = 0; n < graph_.nodes(); ++n) {
      if (missing_[n] == 0) make_ready(n);
    }
    std::vector<NodeId> order;
    order.reserve(missing_.size());
    while (!eager_.empty() || !ready_.empty()) {
      auto& heap = eager_.empty() ? ready_ : eager_;
      const NodeId n = heap.top().node;
      heap.pop();
      if (placed_[n]) continue;  // by a newer entry
      place(n);
      order.push_back(n);
    }
    if (rule_.from_end) std::reverse(order.begin(), order.end());
    return order;
  }

 private:
  struct Entry {
    int64_t key, rank;
    NodeId node;
    bool operator<(const Entry& other) const {  // the heap's top is the largest
      if (key != other.key) return key > other.key;
      return rank != other.rank ? rank > other.rank : node > other.node;
    }
  };

  bool dies(StorageId s) const { return rule_.from_end || !graph_.kept[s]; }

  void make_ready(NodeId n) {
    ++clock_;
    if (rule_.pick == ListRule::Pick::depth) rank_[n] = -clock_;
    if (rule_.pick == ListRule::Pick::breadth) rank_[n] = clock_;
    push(n);
  }

  void push(NodeId n) {
    const int64_t added = added_[n], rank = rank_[n];
    if (rule_.eager && added <= rule_.slack) return eager_.push({added, rank, n});
    ready_.push({rule_.pick == ListRule::Pick::bytes ? added : 0, rank, n});
  }

  void add(NodeId n, int64_t bytes) {
    added_[n] += bytes;
    if (missing_[n] == 0 && !placed_[n]) push(n);
  }

  void place(NodeId n) {
    placed_[n] = 1;
    for (StorageId s : graph_.touches[n]) {
      if (!alive_[s]) {
        alive_[s] = 1;
        for (NodeId other : graph_.touchers[s]) {
          if (!placed_[other]) add(other, -graph_.bytes[s]);
        }
      }
      rest_[s] ^= n;
      if (--left_[s] == 1 && dies(s)) add(rest_[s], -graph_.bytes[s]);
    }
    for (NodeId next : after_[n]) {
      if (--missing_[next] == 0) make_ready(next);
    }
  }

  const OrderGraph& graph_;
  const ListRule rule_;
  const Lists<NodeId, NodeId>&before_, &after_;  // as seen from where the schedule begins
  ByNode<int64_t> rank_;                         // which goes first, other things being equal
  ByNode<int64_t> added_;                        // bytes alive after it less bytes alive before it
  ByNode<int32_t> missing_;                      // those it still waits for
  ByNode<char> placed_;
  ByStorage<int32_t> left_;  // nodes that touch it and are not placed yet,
  ByStorage<int32_t> rest_;  // and all of them xored: the last one's number
  ByStorage<char> alive_;
  std::priority_queue<Entry> ready_, eager_;
  int64_t clock_ = 0;
};

}  // namespace

std::vector<NodeId> list_schedule(const OrderGraph& graph, const ListRule& rule,
                                  const std::vector<NodeId>& guide) {
  return ListScheduler(graph, rule, guide).run();
}

std::vector<NodeId> with_late_clones(const OrderGraph& graph, const std::vector<NodeId>& order) {
  auto is_clone = [&](NodeId n) { return comes_late(graph.program.node(n)); };
  std::vector<NodeId> out;
  out.reserve(order.size());
  std::vector<char> placed(order.size(), 0);
  std::vector<int32_t> rank(order.size());
  for (size_t i = 0; i < order.size(); ++i) rank[order[i]] = int32_t(i);
  std::vector<NodeId> list;
  auto bring = [&](NodeId n) {  // after the clones it waits for, in the order they had
    list = {n};
    placed[n] = 1;
    for (size_t i = 0; i < list.size(); ++i) {
      for (NodeId d : graph.before[list[i]]) {
        if (placed[d]) continue;  // only clones are not
        placed[d] = 1;
        list.push_back(d);
      }
    }
    std::sort(list.begin(), list.end(), [&](NodeId a, NodeId b) { return rank[a] < rank[b]; });
    out.insert(out.end(), list.begin(), list.end());
  };
  for (NodeId n : order) {
    if (!placed[n] && !is_clone(n)) bring(n);
  }
  for (NodeId n : order) {
    if (!placed[n]) bring(n);  // nobody waits for it
  }
  return out;
}

}  // namespace pal
