// The choice by peaks, then the walk over the nodes with both directions of the link.
#include "memory/swap/planned.h"

#include <algorithm>

namespace pal {
namespace {

class Planner {
 public:
  Planner(const std::vector<SwapUnit>& units, const SwapCosts& times, int64_t target, SwapRank rank,
          int64_t host_room, bool below)
      : units_(units),
        t_(times),
        target_(target),
        rank_(rank),
        host_room_(host_room),
        below_(below),
        during_(times.during),
        after_(times.after),
        copied_(units.size(), 0) {
    start_.resize(during_.size());
    double clock = 0;
    for (NodeId n : during_.ids()) {
      start_[n] = clock;
      clock += t_.node_ms[n];
    }
    end_ = clock;
  }

  std::vector<Trip> run() {
    choose();
    drop_needless();
    return timed();
  }

  std::vector<Trip> run(const std::vector<std::pair<size_t, Gap>>& chosen) {
    for (const auto& [unit, gap] : chosen) {
      if (has_room(unit)) take(unit, gap);
    }
    if (!below_) raise_target();
    return timed();
  }

 private:
  std::vector<Trip> timed() {
    leave();
    come_back();
    std::vector<Trip> trips;
    for (const Away& away : chosen_) {
      if (away.leave + 1 < away.come) trips.push_back({away.unit, away.leave, away.come});
    }
    return trips;
  }

  struct Away {
    size_t unit;
    Gap gap;
    NodeId leave = kNone, come = kNone;
  };

  double ms(const Away& away) const { return t_.copy_ms[away.unit]; }
  int64_t bytes(const Away& away) const { return units_[away.unit].bytes; }
  // That its copy would take: none, where it has one.
  int64_t host_bytes(size_t unit) const { return copied_[unit] ? 0 : units_[unit].bytes; }
  bool has_room(size_t unit) const { return host_bytes(unit) <= host_room_; }
  // Bytes that are there when nodes [first, last) run, and between them.
  void add(NodeId first, NodeId last, int64_t bytes) {
    for (NodeId n = first; n < last; ++n) during_[n] += bytes;
    for (NodeId n = first; n + 1 < last; ++n) after_[n] += bytes;
  }
  int64_t over(NodeId n) const { return std::max(during_[n], after_[n]) - target_; }
  // So many more bytes that are back for this node.
  bool fit(NodeId n, int64_t more) const {
    return during_[n] + more <= target_ && (n == 0 || after_[n - 1] + more <= target_);
  }
  double done(NodeId n) const { return start_[n] + t_.node_ms[n]; }

  double rank(const SwapUnit& unit, const Gap& gap, double copy_ms) const {
    switch (rank_) {
      case SwapRank::free_time: return start_[gap.before] - done(gap.after) - 2 * copy_ms;
      case SwapRank::earliest: return -double(unit.made);
      case SwapRank::largest: return double(unit.bytes);
    }
    return 0;
  }

  // The highest node, and the best unit idle there, until nothing is above the target. Where
  // nothing more is idle, the target is what is left there; or, below that, others go on, so many
  // more as there are nodes.
  void choose() {
    struct Option {
      size_t unit;
      Gap gap;
      double rank;
    };
    std::vector<Option> options;
    for (size_t u = 0; u < units_.size(); ++u) {
      for (const Gap& gap : units_[u].gaps) {
        options.push_back({u, gap, rank(units_[u], gap, t_.copy_ms[u])});
      }
    }
    std::stable_sort(options.begin(), options.end(),
                     [](const Option& a, const Option& b) { return a.rank > b.rank; });
    std::vector<char> taken(options.size(), 0);
    ByNode<char> given_up(during_.size(), 0);
    bool reached = true;
    size_t beyond = 0;
    while (beyond < during_.size()) {
      NodeId peak = kNone;
      for (NodeId n : during_.ids()) {
        if (!given_up[n] && over(n) > 0 && (peak == kNone || over(n) > over(peak))) peak = n;
      }
      if (peak == kNone) return;
      size_t best = options.size();
      for (size_t i = 0; i < options.size() && best == options.size(); ++i) {
        const Option& o = options[i];
        if (!taken[i] && o.gap.after < peak && peak < o.gap.before && has_room(o.unit)) best = i;
      }
      if (best == options.size()) {
        if (!below_) return raise_target();
        given_up[peak] = 1, reached = false;
        continue;
      }
      taken[best] = 1;
      take(options[best].unit, options[best].gap);
      beyond += !reached;
    }
  }
  // To what the highest node has.
  void raise_target() {
    for (NodeId n : during_.ids()) target_ += std::max<int64_t>(over(n), 0);
  }

  void take(size_t unit, const Gap& gap) {
    host_room_ -= host_bytes(unit), copied_[unit] = 1;
    chosen_.push_back({unit, gap});
    add(gap.after + 1, gap.before, -bytes(chosen_.back()));
  }

  bool fit_all(NodeId first, NodeId last, int64_t more) const {
    for (NodeId n = first; n < last; ++n) {
      if (during_[n] + more > target_ || (n + 1 < last && after_[n] + more > target_)) return false;
    }
    return true;
  }

  void drop_needless() {
    for (size_t i = chosen_.size(); i-- > 0;) {
      const Away away = chosen_[i];
      const NodeId first = away.gap.after + 1, last = away.gap.before;
      if (!fit_all(first, last, bytes(away))) continue;
      add(first, last, bytes(away));
      chosen_.erase(chosen_.begin() + int64_t(i));
    }
  }

  // When each unit's bytes are given up. during_ and after_ become what is on the device if nothing
  // came back before its reader.
  void leave() {
    std::vector<size_t> queue(chosen_.size());
    for (size_t i = 0; i < queue.size(); ++i) queue[i] = i;
    std::stable_sort(queue.begin(), queue.end(), [&](size_t a, size_t b) {
      return units_[chosen_[a].unit].made < units_[chosen_[b].unit].made;
    });
    for (Away& away : chosen_) add(away.gap.after + 1, away.gap.before, bytes(away));
    std::vector<double> out(chosen_.size(), 0);  // when its copy is done
    std::vector<char> copied(units_.size(), 0);
    std::vector<size_t> waiting;  // in the order of the queue
    size_t next = 0;
    double clock = 0, link = 0;
    for (NodeId n : during_.ids()) {
      for (; next < queue.size() && units_[chosen_[queue[next]].unit].made < n; ++next) {
        const Away& away = chosen_[queue[next]];
        if (!copied[away.unit]) {  // a second trip needs no copy
          link = std::max(link, done(units_[away.unit].made)) + ms(away);
          copied[away.unit] = 1;
        }
        out[queue[next]] = link;
        waiting.push_back(queue[next]);
      }
      const auto give_up = [&](size_t k) {
        Away& away = chosen_[waiting[k]];
        away.leave = NodeId(n - 1);
        if (n < away.gap.before) add(n, away.gap.before, -bytes(away));
        waiting.erase(waiting.begin() + int64_t(k));
      };
      for (size_t k = 0; k < waiting.size();) {
        const Away& away = chosen_[waiting[k]];
        const bool free = away.gap.after < n && (out[waiting[k]] <= clock || away.gap.before <= n);
        free ? give_up(k) : void(++k);
      }
      // Not enough room: the node waits for the copies under way.
      for (size_t k = 0; k < waiting.size() && over(n) > 0;) {
        if (chosen_[waiting[k]].gap.after >= n) {
          ++k;
          continue;
        }
        clock = std::max(clock, out[waiting[k]]);
        give_up(k);
      }
      start_[n] = clock;
      clock += t_.node_ms[n];
    }
    end_ = clock;
    for (Away& away : chosen_) {
      if (away.leave == kNone) away.leave = away.gap.after;
    }
  }

  // When each unit comes back.
  void come_back() {
    std::vector<size_t> order(chosen_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return chosen_[a].gap.before < chosen_[b].gap.before;
    });
    double link = end_;
    for (size_t i = order.size(); i-- > 0;) {
      Away& away = chosen_[order[i]];
      link = std::min(link, start_[away.gap.before]) - ms(away);
      NodeId come = away.gap.before;
      while (come > away.leave + 1 && start_[come] > link) --come;
      away.come = come;
    }
    for (size_t i : order) {
      Away& away = chosen_[i];
      NodeId come = away.gap.before;
      while (come > away.come && fit(NodeId(come - 1), bytes(away))) --come;
      away.come = come;
      for (NodeId n = come; n < away.gap.before; ++n) {
        during_[n] += bytes(away), after_[n - 1] += bytes(away);
      }
    }
  }

  const std::vector<SwapUnit>& units_;
  const SwapCosts& t_;
  int64_t target_;
  const SwapRank rank_;
  int64_t host_room_;
  const bool below_;
  ByNode<int64_t> during_, after_;
  ByNode<double> start_;
  double end_ = 0;
  std::vector<Away> chosen_;
  std::vector<char> copied_;  // by unit
};

}  // namespace

std::vector<Trip> planned_trips(const std::vector<SwapUnit>& units, const SwapCosts& times,
                                int64_t target, SwapRank rank, int64_t host_room, bool below) {
  return Planner(units, times, target, rank, host_room, below).run();
}

std::vector<Trip> planned_trips(const std::vector<SwapUnit>& units,
                                const std::vector<std::pair<size_t, Gap>>& chosen,
                                const SwapCosts& times, int64_t target, int64_t host_room,
                                bool below) {
  return Planner(units, times, target, SwapRank::earliest, host_room, below).run(chosen);
}

}  // namespace pal
