// The search runs the program and takes it back, node by node.
#include "memory/schedule/exact.h"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <unordered_set>

namespace pal {
namespace {

using NodeSet = std::array<uint64_t, kExactNodes / 64>;

struct HashOfNodes {
  size_t operator()(const NodeSet& set) const {
    uint64_t h = 0;
    for (uint64_t word : set) {
      h = (h ^ word) * 0x9E3779B97F4A7C15u;  // Fibonacci hashing, word by word
      h ^= h >> 29;
    }
    return size_t(h);
  }
};

// The program being run: which nodes have, and what is alive.
class Running {
 public:
  struct Effect {
    int64_t peak, after;  // bytes alive while the node runs, and after it
  };

  explicit Running(const OrderGraph& graph)
      : graph_(graph), live_(graph.base), alive_(graph.bytes.size(), 0) {
    for (StorageId s : graph.bytes.ids()) left_.push_back(int32_t(graph.touchers[s].size()));
    for (NodeId n = 0; n < graph.nodes(); ++n) missing_.push_back(int32_t(graph.before[n].size()));
  }

  const NodeSet& ran() const { return ran_; }
  int64_t live() const { return live_; }
  bool is_ready(NodeId n) const {
    return missing_[n] == 0 && !(ran_[size_t(n) / 64] >> (n % 64) & 1);
  }

  Effect effect_of(NodeId n) const {
    int64_t born = 0, dead = 0;
    for (StorageId s : graph_.touches[n]) {
      if (!alive_[s]) born += graph_.bytes[s];
      if (left_[s] == 1 && !graph_.kept[s]) dead += graph_.bytes[s];
    }
    return {live_ + born + graph_.workspace[n] - in_place(n), live_ + born - dead};
  }
  void run(NodeId n) {
    ran_[size_t(n) / 64] |= uint64_t{1} << (n % 64);
    for (StorageId s : graph_.touches[n]) {
      if (alive_[s]++ == 0) live_ += graph_.bytes[s];
      if (--left_[s] == 0 && !graph_.kept[s]) live_ -= graph_.bytes[s];
    }
    for (NodeId next : graph_.after[n]) --missing_[next];
  }
  void take_back(NodeId n) {
    ran_[size_t(n) / 64] &= ~(uint64_t{1} << (n % 64));
    for (StorageId s : graph_.touches[n]) {
      if (left_[s]++ == 0 && !graph_.kept[s]) live_ += graph_.bytes[s];
      if (--alive_[s] == 0) live_ -= graph_.bytes[s];
    }
    for (NodeId next : graph_.after[n]) ++missing_[next];
  }

 private:
  // Bytes of operands that the node's outputs take.
  int64_t in_place(NodeId n) const {
    int64_t bytes = 0;
    StorageId taken[8];
    size_t count = 0;
    for (int32_t t : graph_.takes[n]) {
      const OrderGraph::Take& take = graph_.take[size_t(t)];
      const StorageId a = graph_.storages.of[take.old];
      const StorageId b = graph_.storages.of[take.now];
      if (left_[a] != 1 || alive_[b] || !graph_.is_whole(take.now)) continue;
      const auto known = [&](StorageId s) {
        return std::find(taken, taken + count, s) != taken + count;
      };
      if (count + 2 > std::size(taken) || known(a) || known(b)) continue;
      taken[count++] = a, taken[count++] = b;
      bytes += graph_.bytes[a];
    }
    return bytes;
  }

  const OrderGraph& graph_;
  int64_t live_;
  NodeSet ran_{};
  ByStorage<int32_t> alive_, left_;  // nodes that touch it and have run, and have not
  ByNode<int32_t> missing_;          // those it still waits for
};

int64_t peak_of_order(const OrderGraph& graph, const std::vector<NodeId>& order) {
  Running running(graph);
  int64_t peak = graph.base;
  for (NodeId n : order) {
    peak = std::max(peak, running.effect_of(n).peak);
    running.run(n);
  }
  return peak;
}

// Of any order.
int64_t least_peak(const OrderGraph& graph) {
  int64_t least = graph.base;
  for (NodeId n = 0; n < graph.nodes(); ++n) {
    int64_t bytes = graph.base + graph.workspace[n];
    for (StorageId s : graph.touches[n]) bytes += graph.bytes[s];
    for (int32_t t : graph.takes[n]) {
      bytes -= graph.bytes[graph.storages.of[graph.take[size_t(t)].old]];
    }
    least = std::max(least, bytes);
  }
  return least;
}

class Search {
 public:
  Search(const OrderGraph& graph, int64_t most_states) : graph_(graph), most_states_(most_states) {}

  // An order whose peak is at most `bound`; none is there, or the search gave up.
  std::optional<std::vector<NodeId>> below(int64_t bound) {
    Running start(graph_);
    bound_ = bound, order_.clear();
    if (!search(start)) return {};
    return order_;
  }
  bool gave_up() const { return states() > most_states_; }
  int64_t states() const { return int64_t(dead_ends_.size()); }

 private:
  struct Choice {
    int64_t after, peak;
    NodeId node;
    bool operator<(const Choice& o) const {
      return std::tie(after, peak, node) < std::tie(o.after, o.peak, o.node);
    }
  };

  // Runs the rest of the program below the bound, appending to order_; or leaves all as it was.
  bool search(Running& running) {
    const size_t begin = order_.size();
    std::vector<Choice> choices;
    while (list_choices(running, choices)) {
      order_.push_back(choices.back().node);
      running.run(order_.back());
    }
    if (order_.size() == size_t(graph_.nodes())) return true;
    if (!gave_up() && !dead_ends_.contains(running.ran())) {
      std::sort(choices.begin(), choices.end());
      for (const Choice& c : choices) {
        order_.push_back(c.node);
        running.run(c.node);
        if (search(running)) return true;
        running.take_back(c.node);
        order_.pop_back();
        if (gave_up()) break;
      }
      if (!gave_up()) dead_ends_.insert(running.ran());
    }
    for (; order_.size() > begin; order_.pop_back()) running.take_back(order_.back());
    return false;
  }

  // The nodes that may run next. Whether the last of them is best: nothing is gained by waiting.
  bool list_choices(const Running& running, std::vector<Choice>& choices) const {
    choices.clear();
    for (NodeId n = 0; n < graph_.nodes(); ++n) {
      if (!running.is_ready(n)) continue;
      const Running::Effect effect = running.effect_of(n);
      if (effect.peak > bound_) continue;
      choices.push_back({effect.after, effect.peak, n});
      if (effect.after <= running.live()) return true;
    }
    return false;
  }

  const OrderGraph& graph_;
  const int64_t most_states_;
  int64_t bound_ = 0;
  std::vector<NodeId> order_;
  // Under a higher bound, so under a lower one too.
  std::unordered_set<NodeSet, HashOfNodes> dead_ends_;
};

}  // namespace

ExactOrder exact_order(const OrderGraph& graph, std::vector<NodeId> start, int64_t most_states) {
  ExactOrder out{.order = std::move(start)};
  if (graph.nodes() > kExactNodes) return out;
  Search search(graph, most_states);
  const int64_t least = least_peak(graph);
  while (true) {
    const int64_t peak = peak_of_order(graph, out.order);
    if ((out.proved = peak <= least)) break;
    auto better = search.below(peak - 1);
    if (!better) {
      out.proved = !search.gave_up();
      break;
    }
    out.order = std::move(*better);
  }
  out.states = search.states();
  return out;
}

}  // namespace pal
