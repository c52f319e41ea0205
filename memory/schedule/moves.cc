// Sets of nodes that can change sides of the peak together, and the search over them.
#include "memory/schedule/moves.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "memory/schedule/list.h"

namespace pal {
namespace {

constexpr size_t kLargest = 12;        // storages looked at, for each direction
constexpr size_t kMostTogether = 256;  // nodes that move at once

// An order around its peak.
struct View {
  std::vector<NodeId> order;
  int64_t bytes = 0;           // at the peak
  std::vector<int32_t> peaks;  // positions at the peak
  ByNode<int32_t> position;
  ByStorage<int32_t> first, last;  // positions of the nodes that touch it

  View(const OrderGraph& graph, OrderPeak& peak, std::vector<NodeId> of)
      : order(std::move(of)),
        bytes(peak(order)),
        position(peak.position()),
        first(graph.bytes.size(), int32_t(order.size())),
        last(graph.bytes.size(), -1) {
    for (size_t i = 0; i < peak.live().size(); ++i) {
      if (peak.live()[i] == bytes) peaks.push_back(int32_t(i));
    }
    for (StorageId s : first.ids()) {
      for (NodeId n : graph.touchers[s]) {
        first[s] = std::min(first[s], position[n]);
        last[s] = std::max(last[s], position[n]);
      }
    }
  }
};

// Which way nodes move, and from where: to behind a position at the peak, or to before it.
struct Move {
  int32_t at;
  bool later;
};

// Alive at the position and not in use there; the largest, of equals those that are nearest to
// being made, or dead.
std::vector<StorageId> largest_at(const OrderGraph& graph, const View& view, Move move) {
  std::vector<StorageId> list;
  for (StorageId s : view.first.ids()) {
    const int32_t first = view.first[s], last = view.last[s];
    const bool kept = graph.kept[s];
    const bool alive = first < move.at && (move.at < last || (kept && move.at > last));
    if (alive && (move.later || !kept)) list.push_back(s);
  }
  auto key = [&](StorageId s) {
    return std::pair(-graph.bytes[s],
                     move.later ? move.at - view.first[s] : view.last[s] - move.at);
  };
  const size_t count = std::min(kLargest, list.size());
  std::partial_sort(list.begin(), list.begin() + std::ptrdiff_t(count), list.end(),
                    [&](StorageId a, StorageId b) { return key(a) < key(b); });
  list.resize(count);
  return list;
}

// Nodes that change sides of the peak together.
class MovingSet {
 public:
  MovingSet(const OrderGraph& graph, const View& view, Move move)
      : graph_(graph), view_(view), move_(move), in_set_(view.order.size(), 0) {}

  bool has(NodeId n) const { return in_set_[n]; }

  // The seeds with all that has to come along; false where these are too many, or where the node at
  // the peak is among them and is not what was asked for.
  bool begin(std::span<const NodeId> seeds) {
    for (NodeId n : seeds) add(n);
    const bool peak_itself = set_.size() == 1 && is_peak(set_[0]);
    for (size_t i = 0; i < set_.size(); ++i) {
      for (NodeId n : ahead(set_[i])) {
        if (has(n) || !leaves(n)) continue;
        if (is_peak(n)) return false;
        add(n);
      }
      if (set_.size() > kMostTogether) return false;
    }
    return peak_itself ||
           std::none_of(seeds.begin(), seeds.end(), [&](NodeId n) { return is_peak(n); });
  }

  // Nodes that only the set stands in the way of, where leaving them behind costs as many bytes.
  // Whether there are any.
  bool add_neighbours() {
    const size_t before = set_.size();
    for (size_t i = 0; i < set_.size() && set_.size() < kMostTogether; ++i) {
      for (NodeId n : behind(set_[i])) {
        if (has(n) || !leaves(n) || is_peak(n)) continue;
        const auto others = ahead(n);
        const bool free = std::all_of(others.begin(), others.end(),
                                      [&](NodeId m) { return has(m) || !leaves(m); });
        if (free && gain(n) >= 0) add(n);
      }
    }
    return set_.size() > before;
  }

  // The first position of what depends on the set, or the one after the last that it depends on.
  int32_t bound() const {
    int32_t bound = move_.later ? int32_t(view_.order.size()) : 0;
    for (NodeId n : set_) {
      for (NodeId m : ahead(n)) {
        if (has(m)) continue;
        const int32_t stands = view_.position[m];
        bound = move_.later ? std::min(bound, stands) : std::max(bound, stands + 1);
      }
    }
    return bound;
  }

  // The order with the set, in its order, right before what stands at the position now.
  std::vector<NodeId> moved_to(int32_t position) const {
    const auto to = view_.order.begin() + position;
    auto stays = [&](NodeId n) { return !has(n); };
    std::vector<NodeId> next;
    next.reserve(view_.order.size());
    std::copy_if(view_.order.begin(), to, std::back_inserter(next), stays);
    std::copy_if(view_.order.begin(), view_.order.end(), std::back_inserter(next),
                 [&](NodeId n) { return has(n); });
    std::copy_if(to, view_.order.end(), std::back_inserter(next), stays);
    return next;
  }

 private:
  void add(NodeId n) { in_set_[n] = 1, set_.push_back(n); }
  bool is_peak(NodeId n) const { return view_.position[n] == move_.at; }
  // What must come along with a node that moves, and what may.
  std::span<const NodeId> ahead(NodeId n) const {
    return move_.later ? graph_.after[n] : graph_.before[n];
  }
  std::span<const NodeId> behind(NodeId n) const {
    return move_.later ? graph_.before[n] : graph_.after[n];
  }
  // Whether a node stands on the side of the peak that nodes leave. The peak's own node does, too.
  bool leaves(NodeId n) const {
    return move_.later ? view_.position[n] <= move_.at : view_.position[n] >= move_.at;
  }

  // Bytes fewer alive at the peak when the node comes along.
  int64_t gain(NodeId n) const {
    int64_t bytes = 0;
    for (StorageId s : graph_.touches[n]) {
      bool here = false, there = move_.later && graph_.kept[s];  // others that touch it, by side
      for (NodeId m : graph_.touchers[s]) {
        if (m != n) (has(m) || !leaves(m) ? there : here) = true;
      }
      // With nobody left on this side, it is made late or dead early; with nobody on the other, it
      // comes to span the peak.
      if (!here && there) bytes += graph_.bytes[s];
      if (here && !there) bytes -= graph_.bytes[s];
    }
    return bytes;
  }

  const OrderGraph& graph_;
  const View& view_;
  const Move move_;
  ByNode<char> in_set_;
  std::vector<NodeId> set_;
};

class PeakMoves {
 public:
  PeakMoves(const OrderGraph& graph, OrderPeak& peak, std::vector<NodeId> order, int tries)
      : graph_(graph), peak_(peak), tries_(tries), view_(graph, peak, std::move(order)) {
    for (const Node& node : graph.program.nodes) clones_ |= comes_late(node);
  }

  MovesEffect run() {
    while (effect_.tried < tries_ && improve()) {
    }
    return effect_;
  }
  const std::vector<NodeId>& order() const { return view_.order; }

 private:
  bool improve() {
    const std::vector<int32_t>& peaks = view_.peaks;
    for (int32_t at : {peaks.front(), peaks.back(), peaks[peaks.size() / 2]}) {
      for (bool later : {true, false}) {
        if (move({{view_.order[size_t(at)]}}, {at, later})) return true;
        for (StorageId s : largest_at(graph_, view_, {at, later})) {
          std::vector<NodeId> seeds;
          for (NodeId n : graph_.touchers[s]) {
            if ((view_.position[n] <= at) == later) seeds.push_back(n);
          }
          if (move(seeds, {at, later})) return true;
        }
      }
      if (peaks.size() < 2) break;
    }
    return false;
  }

  // Tries the seeds with all that has to come along, then with what should.
  bool move(const std::vector<NodeId>& seeds, Move move) {
    if (seeds.empty()) return false;
    MovingSet set(graph_, view_, move);
    return set.begin(seeds) && (attempt(set, move) || (set.add_neighbours() && attempt(set, move)));
  }

  bool attempt(const MovingSet& set, Move move) {
    const int32_t far = set.bound(), near = move.later ? move.at + 1 : move.at;
    return attempt_at(set, far) || (far != near && attempt_at(set, near));
  }

  bool attempt_at(const MovingSet& set, int32_t to) {
    if (effect_.tried >= tries_) return false;
    std::vector<NodeId> next = set.moved_to(to);
    if (next == view_.order) return false;
    if (clones_) next = with_late_clones(graph_, next);
    ++effect_.tried;
    const int64_t bytes = peak_(next);
    const auto at_it = std::count(peak_.live().begin(), peak_.live().end(), bytes);
    if (std::pair(bytes, at_it) >= std::pair(view_.bytes, std::ssize(view_.peaks))) return false;
    ++effect_.made;
    view_ = View(graph_, peak_, std::move(next));
    return true;
  }

  const OrderGraph& graph_;
  OrderPeak& peak_;
  const int tries_;
  bool clones_ = false;
  View view_;
  MovesEffect effect_;
};

}  // namespace

MovesEffect move_at_peak(const OrderGraph& graph, OrderPeak& peak, std::vector<NodeId>& order,
                         int tries) {
  if (order.empty()) return {};
  PeakMoves moves(graph, peak, std::move(order), tries);
  const MovesEffect effect = moves.run();
  order = moves.order();
  return effect;
}

}  // namespace pal
