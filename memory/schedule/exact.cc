// The search: a program being run and taken back, node by node.
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

class Search {
 public:
  Search(const OrderGraph& graph, int64_t most_states)
      : graph_(graph), most_states_(most_states), ran_{}, alive_(graph.bytes.size(), 0) {
    for (size_t s = 0; s < graph.bytes.size(); ++s) {
      left_.push_back(int32_t(graph.touchers[int32_t(s)].size()));
    }
    for (NodeId n = 0; n < graph.nodes(); ++n) missing_.push_back(int32_t(graph.before[n].size()));
    live_ = graph.base;
  }

  // The peak of an order, and of any order at least.
  int64_t peak_of_order(const std::vector<NodeId>& order) {
    int64_t peak = graph_.base;
    for (NodeId n : order) {
      peak = std::max(peak, step(n).peak);
      run(n);
    }
    for (size_t i = order.size(); i-- > 0;) take_back(order[i]);
    return peak;
  }
  int64_t lower_bound() const {
    int64_t bound = graph_.base;
    for (NodeId n = 0; n < graph_.nodes(); ++n) {
      int64_t bytes = graph_.base + graph_.workspace[n];
      for (StorageId s : graph_.touches[n]) bytes += graph_.bytes[s];
      for (int32_t t : graph_.takes[n]) {
        bytes -= graph_.bytes[size_t(graph_.storages.of[graph_.take[t].old])];
      }
      bound = std::max(bound, bytes);
    }
    return bound;
  }

  // An order whose peak is at most `bound`; none is there, or the search gave up.
  std::optional<std::vector<NodeId>> below(int64_t bound) {
    bound_ = bound, order_.clear();
    if (!search()) return {};
    for (size_t i = order_.size(); i-- > 0;) take_back(order_[i]);
    return order_;
  }
  bool gave_up() const { return states() > most_states_; }
  int64_t states() const { return int64_t(dead_ends_.size()); }

 private:
  struct Step {
    int64_t peak, after;  // bytes alive while the node runs, and after it
  };

  Step step(NodeId n) const {
    int64_t born = 0, dead = 0, in_place = 0;
    for (StorageId s : graph_.touches[n]) {
      if (!alive_[s]) born += graph_.bytes[s];
      if (left_[s] == 1 && !graph_.kept[s]) dead += graph_.bytes[s];
    }
    StorageId taken[8];
    size_t count = 0;
    for (int32_t t : graph_.takes[n]) {
      const OrderGraph::Take& take = graph_.take[t];
      const StorageId a = graph_.storages.of[take.old];
      const StorageId b = graph_.storages.of[take.now];
      if (left_[a] != 1 || alive_[b] || !graph_.is_whole(take.now)) continue;
      const auto known = [&](StorageId s) {
        return std::find(taken, taken + count, s) != taken + count;
      };
      if (count + 2 > std::size(taken) || known(a) || known(b)) continue;
      taken[count++] = a, taken[count++] = b;
      in_place += graph_.bytes[a];
    }
    return {live_ + born + graph_.workspace[n] - in_place, live_ + born - dead};
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
  bool has_run(NodeId n) const { return ran_[size_t(n) / 64] >> (n % 64) & 1; }

  // Runs the rest of the program below the bound, appending to order_; or leaves all as it was.
  bool search() {
    const size_t begin = order_.size();
    struct Choice {
      int64_t after, peak;
      NodeId node;
      bool operator<(const Choice& o) const {
        return std::tie(after, peak, node) < std::tie(o.after, o.peak, o.node);
      }
    };
    std::vector<Choice> choices;
    for (bool forced = true; forced;) {
      choices.clear();
      forced = false;
      for (NodeId n = 0; n < graph_.nodes() && !forced; ++n) {
        if (missing_[n] != 0 || has_run(n)) continue;
        const Step s = step(n);
        if (s.peak > bound_) continue;
        choices.push_back({s.after, s.peak, n});
        forced = s.after <= live_;
      }
      if (forced) {
        order_.push_back(choices.back().node);
        run(order_.back());
      }
    }
    if (order_.size() == size_t(graph_.nodes())) return true;
    if (!gave_up() && !dead_ends_.count(ran_)) {
      std::sort(choices.begin(), choices.end());
      for (const Choice& c : choices) {
        order_.push_back(c.node);
        run(c.node);
        if (search()) return true;
        take_back(c.node);
        order_.pop_back();
        if (gave_up()) break;
      }
      if (!gave_up()) dead_ends_.insert(ran_);
    }
    for (; order_.size() > begin; order_.pop_back()) take_back(order_.back());
    return false;
  }

  const OrderGraph& graph_;
  const int64_t most_states_;
  int64_t bound_ = 0, live_ = 0;
  NodeSet ran_;
  ByStorage<int32_t> alive_, left_;  // nodes that touch it and have run, and have not
  ByNode<int32_t> missing_;          // those it still waits for
  std::vector<NodeId> order_;
  std::unordered_set<NodeSet, HashOfNodes>
      dead_ends_;  // under a higher bound, so under a lower one too
};

}  // namespace

ExactOrder exact_order(const OrderGraph& graph, std::vector<NodeId> start, int64_t most_states) {
  ExactOrder out{.order = std::move(start)};
  if (graph.nodes() > kExactNodes) return out;
  Search search(graph, most_states);
  const int64_t least = search.lower_bound();
  while (true) {
    const int64_t peak = search.peak_of_order(out.order);
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
