// Lists by size for the filter; neighbours and their sets for the heuristics.
#include "memory/dynamic/scores.h"

#include <algorithm>

namespace pal {
namespace {

// A storage that was used just now is not infinitely dear.
constexpr double kLeastStaleness = 1e-6;

}  // namespace

Scores::Scores(const StepFacts& facts, const DynamicOptions& options)
    : f_(facts), o_(options), entries_(facts.bytes.size()), seen_(facts.bytes.size(), 0) {
  for (StorageId s : facts.bytes.ids()) {
    for (NodeId n : facts.writers[s]) entries_[s].cost += facts.ms[n];
  }
}

void Scores::came(StorageId s, double clock) {
  Entry& e = entries_[s];
  auto& list = by_size_[f_.bytes[s]];
  e.place = list.insert(list.end(), s);
  e.there = true, e.used_ms = clock;
  if (!e.evicted) return;
  e.evicted = false;
  if (o_.manager != Manager::dtr || o_.dtr != DtrHeuristic::eq) return;
  // A set is not taken apart again: only the cost leaves it (as in DTR's paper).
  set_cost_[root(e.set)] -= e.cost;
  e.set = kNone;
}

void Scores::used(StorageId s, double clock) {
  Entry& e = entries_[s];
  e.used_ms = clock;
  auto& list = by_size_[f_.bytes[s]];
  list.splice(list.end(), list, e.place);
}

void Scores::left(StorageId s, bool evicted) {
  Entry& e = entries_[s];
  if (e.there) by_size_[f_.bytes[s]].erase(e.place);
  e.there = false;
  if (!evicted || e.evicted) return;
  e.evicted = true;
  if (o_.manager != Manager::dtr || o_.dtr != DtrHeuristic::eq) return;
  // A set of its own, under a number that no set has yet, then with those of its neighbours.
  e.set = up_.add(up_.next_id());
  set_cost_.add(e.cost);
  for (const auto* list : {&f_.parents[s], &f_.children[s]}) {
    for (StorageId o : *list) {
      if (!entries_[o].evicted) continue;
      const StorageId a = root(e.set), b = root(entries_[o].set);
      if (a == b) continue;
      up_[b] = a, set_cost_[a] += set_cost_[b];
    }
  }
}

StorageId Scores::root(StorageId set) {
  while (up_[set] != set) set = up_[set] = up_[up_[set]];
  return set;
}

// Costs of evicted storages that are reached through evicted ones, one way.
double Scores::around(StorageId s, bool down) {
  const auto& next = down ? f_.children : f_.parents;
  ++stamp_;
  double sum = 0;
  std::vector<StorageId> todo{s};
  while (!todo.empty()) {
    const StorageId t = todo.back();
    todo.pop_back();
    for (StorageId o : next[t]) {
      if (!entries_[o].evicted || seen_[o] == stamp_) continue;
      seen_[o] = stamp_;
      sum += entries_[o].cost;
      todo.push_back(o);
    }
  }
  return sum;
}

double Scores::of_sets(StorageId s) {
  ++stamp_;
  double sum = 0;
  for (const auto* list : {&f_.parents[s], &f_.children[s]}) {
    for (StorageId o : *list) {
      if (!entries_[o].evicted) continue;
      const StorageId set = root(entries_[o].set);
      if (size_t(set) >= seen_.size()) seen_.resize(size_t(set) + 1, 0);
      if (seen_[set] == stamp_) continue;
      seen_[set] = stamp_;
      sum += set_cost_[set];
    }
  }
  return sum;
}

double Scores::heuristic(StorageId s, double clock) {
  const Entry& e = entries_[s];
  const auto m = double(f_.bytes[s]);
  const double stale = std::max(clock - e.used_ms, kLeastStaleness);
  switch (o_.dtr) {
    case DtrHeuristic::full: return (e.cost + around(s, false) + around(s, true)) / (m * stale);
    case DtrHeuristic::eq: return (e.cost + of_sets(s)) / (m * stale);
    case DtrHeuristic::local: return e.cost / (m * stale);
    case DtrHeuristic::lru: return 1 / stale;
    case DtrHeuristic::size: return 1 / m;
    case DtrHeuristic::msps: return (e.cost + around(s, false)) / m;
  }
  return 0;
}

StorageId Scores::lowest_of_filter(double clock,
                                   const std::function<bool(StorageId)>& is_candidate) {
  StorageId best = kNone;
  double highest = 0;  // of what the filter divides by
  for (auto of_size = by_size_.rbegin(); of_size != by_size_.rend(); ++of_size) {
    const auto& [bytes, list] = *of_size;
    const auto first = std::find_if(list.begin(), list.end(), is_candidate);
    if (first == list.end()) continue;
    if (o_.filter == Filter::greedy) return *first;
    const double stale = std::max(clock - entries_[*first].used_ms, kLeastStaleness);
    const double value = o_.filter == Filter::lru ? stale : double(bytes) * stale;
    if (best == kNone || value > highest) best = *first, highest = value;
  }
  return best;
}

StorageId Scores::lowest(double clock, const std::function<bool(StorageId)>& is_candidate) {
  if (o_.manager != Manager::dtr) return lowest_of_filter(clock, is_candidate);
  StorageId best = kNone;
  double least = 0;
  for (const auto& [bytes, list] : by_size_) {
    for (StorageId s : list) {
      if (!is_candidate(s)) continue;
      const double value = heuristic(s, clock);
      if (best == kNone || value < least) best = s, least = value;
    }
  }
  return best;
}

}  // namespace pal
