// Sets of nodes that can change sides of the peak together, and the search over them.
#include "memory/schedule/moves.h"

#include <algorithm>
#include <utility>

#include "memory/schedule/list.h"

namespace pal {
namespace {

constexpr size_t kLargest = 12;        // storages looked at, for each direction
constexpr size_t kMostTogether = 256;  // nodes that move at once

class PeakMoves {
 public:
  PeakMoves(const OrderGraph& graph, OrderPeak& peak, std::vector<NodeId>& order, int tries)
      : graph_(graph), peak_(peak), order_(order), tries_(tries), in_set_(order.size(), 0) {
    for (const Node& node : graph.program.nodes) clones_ |= node.phase == Phase::recompute;
  }

  MovesEffect run() {
    if (order_.empty()) return effect_;
    best_ = score(order_);
    look();
    while (effect_.tried < tries_ && improve()) {
    }
    return effect_;
  }

 private:
  // The peak, and how many nodes run at it.
  using Score = std::pair<int64_t, int64_t>;
  Score score(const std::vector<NodeId>& order) {
    const int64_t bytes = peak_(order);
    return {bytes, std::count(peak_.live().begin(), peak_.live().end(), bytes)};
  }

  // What the order looks like: kept apart from peak_, which attempts overwrite.
  void look() {
    score(order_);
    place_ = peak_.place();
    peaks_.clear();
    for (size_t i = 0; i < peak_.live().size(); ++i) {
      if (peak_.live()[i] == best_.first) peaks_.push_back(int32_t(i));
    }
    first_.assign(graph_.bytes.size(), int32_t(order_.size()));
    last_.assign(graph_.bytes.size(), -1);
    for (size_t s = 0; s < first_.size(); ++s) {
      for (NodeId n : graph_.touchers[StorageId(s)]) {
        first_[s] = std::min(first_[s], place_[n]);
        last_[s] = std::max(last_[s], place_[n]);
      }
    }
  }

  bool improve() {
    for (int32_t at : {peaks_.front(), peaks_.back(), peaks_[peaks_.size() / 2]}) {
      for (bool later : {true, false}) {
        if (move_set({order_[at]}, at, later)) return true;
        for (StorageId s : largest(at, later)) {
          std::vector<NodeId> seeds;
          for (NodeId n : graph_.touchers[s]) {
            const int32_t i = place_[n];
            if (later ? i <= at : i > at) seeds.push_back(n);
          }
          if (move_set(std::move(seeds), at, later)) return true;
        }
      }
      if (peaks_.size() < 2) break;
    }
    return false;
  }

  // Alive at the place and not in use there; the largest, of equals those that are nearest to being
  // made, or dead.
  std::vector<StorageId> largest(int32_t at, bool later) const {
    std::vector<StorageId> list;
    for (size_t s = 0; s < first_.size(); ++s) {
      if (first_[s] < at && (at < last_[s] || (later && graph_.kept[s] && at > last_[s]))) {
        if (later || !graph_.kept[s]) list.push_back(StorageId(s));
      }
    }
    auto key = [&](StorageId s) {
      return std::make_pair(-graph_.bytes[s], later ? at - first_[s] : last_[s] - at);
    };
    const size_t count = std::min(kLargest, list.size());
    std::partial_sort(list.begin(), list.begin() + std::ptrdiff_t(count), list.end(),
                      [&](StorageId a, StorageId b) { return key(a) < key(b); });
    list.resize(count);
    return list;
  }

  // Whether a node stands on the side of the peak that nodes leave. The peak's own node does, too.
  bool leaves(NodeId n, int32_t at, bool later) const {
    return later ? place_[n] <= at : place_[n] >= at;
  }

  // Tries the seeds with all that has to come along, then with what should.
  bool move_set(std::vector<NodeId> set, int32_t at, bool later) {
    if (set.empty()) return false;
    const bool peak_itself = set.size() == 1 && place_[set[0]] == at;
    for (NodeId n : set) in_set_[n] = 1;
    bool fits = true, moved = false;
    for (size_t i = 0; i < set.size() && fits; ++i) {
      for (NodeId n : later ? graph_.after[set[i]] : graph_.before[set[i]]) {
        if (in_set_[n] || !leaves(n, at, later)) continue;
        fits &= place_[n] != at;
        in_set_[n] = 1, set.push_back(n);
      }
      fits &= set.size() <= kMostTogether;
    }
    if (!peak_itself) {
      for (NodeId n : set) fits &= place_[n] != at;
    }
    if (fits) {
      moved = attempt(set, at, later);
      if (!moved && add_neighbours(set, at, later)) moved = attempt(set, at, later);
    }
    for (NodeId n : set) in_set_[n] = 0;
    if (moved) look();
    return moved;
  }

  // Nodes that only the set stands in the way of, where leaving them behind costs as many bytes.
  bool add_neighbours(std::vector<NodeId>& set, int32_t at, bool later) {
    const size_t before = set.size();
    for (size_t i = 0; i < set.size() && set.size() < kMostTogether; ++i) {
      for (NodeId n : later ? graph_.before[set[i]] : graph_.after[set[i]]) {
        if (in_set_[n] || !leaves(n, at, later) || place_[n] == at) continue;
        bool free = true;
        for (NodeId m : later ? graph_.after[n] : graph_.before[n]) {
          free &= in_set_[m] || !leaves(m, at, later);
        }
        if (!free || gain(n, at, later) < 0) continue;
        in_set_[n] = 1, set.push_back(n);
      }
    }
    return set.size() > before;
  }

  // Bytes fewer alive at the peak when the node comes along.
  int64_t gain(NodeId n, int32_t at, bool later) const {
    int64_t bytes = 0;
    for (StorageId s : graph_.touches[n]) {
      bool here = false, there = later && graph_.kept[s];  // others that touch it, by side
      for (NodeId m : graph_.touchers[s]) {
        if (m == n) continue;
        (in_set_[m] || !leaves(m, at, later) ? there : here) = true;
      }
      // With nobody left on this side, it is made late or dead early; with nobody on the other, it
      // comes to span the peak.
      if (!here && there) bytes += graph_.bytes[s];
      if (here && !there) bytes -= graph_.bytes[s];
    }
    return bytes;
  }

  bool attempt(const std::vector<NodeId>& set, int32_t at, bool later) {
    // The first place of what depends on the set, or the place after the last that it depends on.
    int32_t bound = later ? int32_t(order_.size()) : 0;
    for (NodeId n : set) {
      for (NodeId m : later ? graph_.after[n] : graph_.before[n]) {
        if (in_set_[m]) continue;
        bound = later ? std::min(bound, place_[m]) : std::max(bound, place_[m] + 1);
      }
    }
    const int32_t near = later ? at + 1 : at;
    return attempt_at(bound) || (bound != near && attempt_at(near));
  }

  // The set goes, in its order, to right before what stands at the place now.
  bool attempt_at(int32_t to) {
    if (effect_.tried >= tries_) return false;
    std::vector<NodeId> moved, next;
    for (NodeId n : order_) {
      if (in_set_[n]) moved.push_back(n);
    }
    next.reserve(order_.size());
    for (int32_t i = 0; i <= int32_t(order_.size()); ++i) {
      if (i == to) next.insert(next.end(), moved.begin(), moved.end());
      if (i < int32_t(order_.size()) && !in_set_[order_[i]]) {
        next.push_back(order_[i]);
      }
    }
    if (next == order_) return false;
    if (clones_) next = with_late_clones(graph_, next);
    ++effect_.tried;
    const Score now = score(next);
    if (now >= best_) return false;
    ++effect_.made;
    best_ = now, order_ = std::move(next);
    return true;
  }

  const OrderGraph& graph_;
  OrderPeak& peak_;
  std::vector<NodeId>& order_;
  const int tries_;
  bool clones_ = false;
  Score best_;
  ByNode<int32_t> place_;
  std::vector<int32_t> peaks_;       // places at the peak
  ByStorage<int32_t> first_, last_;  // places that touch it
  ByNode<char> in_set_;
  MovesEffect effect_;
};

}  // namespace

MovesEffect move_at_peak(const OrderGraph& graph, OrderPeak& peak, std::vector<NodeId>& order,
                         int tries) {
  return PeakMoves(graph, peak, order, tries).run();
}

}  // namespace pal
