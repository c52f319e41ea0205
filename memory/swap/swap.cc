// Candidates, each with its queues and waits, and the one that is the fastest within the budget.
#include "memory/swap/swap.h"

#include <algorithm>
#include <limits>

#include "core/text.h"
#include "memory/passes/assign_queues.h"
#include "memory/place/place.h"
#include "memory/plan/plan.h"
#include "memory/storages/lifetimes.h"
#include "memory/swap/planned.h"

namespace pal {
namespace {

constexpr int kTargets = 24;  // without a budget: so many parts of the peak are tried
constexpr int kTries = 3;     // at a budget that the estimate missed
constexpr double kTargetsBelow[] = {1, 0.97, 0.93};  // of a budget: less alive may be faster
constexpr int kLeastStep = 64;    // a step down is no less than this part of the budget
constexpr int kWorthLess = 100;   // of what misses the budget: so large a part less is worth time
constexpr int kHalvings = 6;      // between what placement could do and what it could not
constexpr double kNoTime = 1e-4;  // of a step
constexpr SwapRank kSwapRanks[] = {SwapRank::free_time, SwapRank::earliest, SwapRank::largest};

// What is left of the host's memory beside what the step keeps there anyway. Copies that are not
// there at once are counted as if they were.
int64_t host_room_of(const Program& p, const SwapGoal& goal) {
  if (!goal.host_budget) return std::numeric_limits<int64_t>::max();
  const Storages storages = assign_storages(p, goal.workspace, goal.storages);
  return *goal.host_budget - peak_of(storages, lifetimes_of(p, storages), Space::host).bytes;
}

class Search {
 public:
  Search(const Program& p, const SwapOptions& options, const SwapGoal& goal)
      : p_(p), options_(options), goal_(goal), host_room_(host_room_of(p, goal)) {
    const Storages storages = assign_storages(p, goal.workspace, goal.storages);
    const Prediction times = predict(p, goal.device, &storages);
    const std::vector<int64_t> live = live_bytes(p, storages, lifetimes_of(p, storages));
    for (const int64_t bytes : live) base_.bytes = std::max(base_.bytes, bytes);
    base_.ms = times.step_ms;
    t_.node_ms = times.node_ms;
    for (NodeId n : p.nodes.ids()) {
      t_.during.push_back(live[size_t(start_of(n))]), t_.after.push_back(live[size_t(done_of(n))]);
    }
    const bool planned = options.method == Swap::planned;
    units_ = swap_units(p, planned ? least_worth_copying(base_.bytes) : 1);
    for (const SwapUnit& unit : units_) t_.copy_ms.push_back(copy_ms(p, unit, goal.device));
  }

  std::optional<Program> run(std::string* note) {
    if (units_.empty()) return tell(note, "no value is idle long enough"), std::nullopt;
    std::optional<Candidate> best;
    if (options_.method == Swap::naive) {
      best = made(naive());
    } else if (options_.method == Swap::vdnn) {
      best = made(vdnn(options_.vdnn));
    } else if (options_.chosen) {
      best = of_chosen(goal_.budget.value_or(base_.bytes));
    } else {
      best = goal_.budget ? within(*goal_.budget) : free_of_charge();
    }
    if (!best || best->copies == 0) return tell(note, "nothing is swapped"), std::nullopt;
    tell(note,
         std::to_string(best->copies) + " copies out, " + format_bytes(best->moved) + ", and back");
    return std::move(best->program);
  }

 private:
  struct Candidate {
    Program program;
    int64_t bytes = 0;  // at the peak
    double ms = 0;
    int64_t copies = 0, moved = 0;  // out
  };

  static void tell(std::string* note, std::string text) {
    if (note) *note = std::move(text);
  }

  // Scratch bytes of a program with copies: those of the nodes that were there before.
  ByNode<int64_t> workspace_of(const Program& p) const {
    ByNode<int64_t> workspace(p.nodes.size(), 0);
    NodeId old = 0;
    for (NodeId n : p.nodes.ids()) {
      bool added = false;  // copies, and views that are made again
      for (ValueId v : present(p.node(n).out)) added |= size_t(v) >= p_.values.size();
      if (!added) workspace[n] = goal_.workspace[old++];
    }
    return workspace;
  }

  // What was chosen, or what the ranks take where that is better: the fastest within the target,
  // else of about the smallest.
  Candidate of_chosen(int64_t target) const {
    const auto chosen = chosen_units();
    std::vector<Candidate> found;
    int64_t least = std::numeric_limits<int64_t>::max();
    const auto add = [&](const std::vector<Trip>& trips) {
      found.push_back(made(trips));
      least = std::min(least, found.back().bytes);
    };
    for (const bool below : {false, true}) {
      if (below && least <= target) break;
      add(planned_trips(units_, chosen, t_, target, host_room_, below));
      for (const SwapRank rank : kSwapRanks) {
        add(planned_trips(units_, t_, target, rank, host_room_, below));
      }
    }
    const int64_t most = least <= target ? target : least + least / kWorthLess;
    Candidate* best = nullptr;
    for (Candidate& each : found) {
      if (each.bytes <= most && (!best || each.ms < best->ms)) best = &each;
    }
    return std::move(*best);
  }
  // With the gaps between the forward phase and what is after it.
  std::vector<std::pair<size_t, Gap>> chosen_units() const {
    std::vector<std::pair<size_t, Gap>> chosen;
    std::vector<ValueId> leaves = *options_.chosen;
    std::sort(leaves.begin(), leaves.end());
    for (size_t u = 0; u < units_.size(); ++u) {
      const auto is_chosen = [&](ValueId v) {
        return std::binary_search(leaves.begin(), leaves.end(), v);
      };
      if (std::none_of(units_[u].copied.begin(), units_[u].copied.end(), is_chosen)) continue;
      if (const auto gap = stashed_gap(p_, units_[u])) chosen.emplace_back(u, *gap);
    }
    return chosen;
  }

  Candidate made(const std::vector<Trip>& trips) const {
    Candidate out{.program = with_trips(p_, units_, trips)};
    std::optional<Program> queued = assign_queues(out.program);
    const Program& p = queued ? *queued : out.program;
    const Storages storages = assign_storages(p, workspace_of(p), goal_.storages);
    out.bytes = peak_of(storages, lifetimes_of(p, storages)).bytes;
    out.ms = predict(p, goal_.device, &storages).step_ms;
    for (const Node& node : p.nodes) {
      if (node.phase != Phase::offload) continue;
      ++out.copies, out.moved += p.value(node.out[0]).spec.bytes();
    }
    return out;
  }
  std::vector<Trip> naive() const { return within_host(naive_trips(p_, units_)); }
  std::vector<Trip> vdnn(VdnnInputs inputs) const {
    return within_host(vdnn_trips(p_, units_, inputs));
  }
  // The first of them, as many as there is room for.
  std::vector<Trip> within_host(std::vector<Trip> trips) const {
    int64_t room = host_room_;
    std::erase_if(trips, [&](const Trip& trip) {
      const bool fits = units_[trip.unit].bytes <= room;
      if (fits) room -= units_[trip.unit].bytes;
      return !fits;
    });
    return trips;
  }
  Candidate planned(int64_t target, SwapRank rank) const {
    return made(planned_trips(units_, t_, target, rank, host_room_, true));
  }

  // What the step takes once it is placed; at least `enough`, where it fits that.
  int64_t placed_bytes(const Candidate& candidate, int64_t enough) const {
    const Program p = assign_queues(candidate.program).value_or(candidate.program);
    const Storages storages = assign_storages(p, workspace_of(p), goal_.storages);
    int64_t fixed = 0;
    for (const Storage& storage : storages.list) {
      if (storage.space == Space::device && !storage.is_transient()) fixed += footprint(storage);
    }
    const Transients transients = transients_of(p, storages, Space::device);
    return fixed + place(transients.buffers, {.enough = enough - fixed}).height;
  }

  // The fastest within the budget; where there is none, the smallest. Placement may need more than
  // is alive at the peak: then less may be alive, as much as is found by halving.
  Candidate within(int64_t budget) const {
    Candidate best = made({});
    if (best.bytes > budget) best = fastest(budget);
    int64_t over = best.bytes > budget ? 0 : placed_bytes(best, budget) - budget;
    if (over <= 0) return best;
    int64_t least_over = budget, most_fitting = 0;  // alive at the peak
    const auto below = [&](int64_t room) {
      return std::min(room, best.bytes) - std::max(over, budget / kLeastStep);
    };
    for (int64_t room = below(budget); room > budget / 2; room = below(room)) {
      Candidate candidate = fastest(room);
      if (candidate.bytes > room) return candidate;
      over = placed_bytes(candidate, budget) - budget;
      best = std::move(candidate);
      if (over <= 0) {
        most_fitting = room;
        break;
      }
      least_over = room;
    }
    for (int tries = 0; tries < kHalvings && most_fitting; ++tries) {
      const int64_t room = most_fitting + (least_over - most_fitting) / 2;
      Candidate candidate = fastest(room);
      if (placed_bytes(candidate, budget) > budget) {
        least_over = room;
        continue;
      }
      most_fitting = room;
      if (candidate.ms < best.ms) best = std::move(candidate);
    }
    return best;
  }

  const std::vector<Candidate>& baselines() const {
    if (baselines_.empty()) {
      baselines_ = {made(naive()), made(vdnn(VdnnInputs::conv)), made(vdnn(VdnnInputs::all))};
    }
    return baselines_;
  }

  // By the bytes alive at the peak.
  Candidate fastest(int64_t budget) const {
    std::optional<Candidate> best;
    const auto consider = [&](Candidate candidate) {
      const bool fits = candidate.bytes <= budget;
      const bool better = !best || (best->bytes > budget ? candidate.bytes < best->bytes
                                                         : fits && candidate.ms < best->ms);
      if (better) best = std::move(candidate);
      return fits;
    };
    for (const SwapRank rank : kSwapRanks) {
      for (const double part : kTargetsBelow) {
        auto target = int64_t(part * double(budget));
        for (int tries = 0; tries < kTries; ++tries) {
          Candidate candidate = planned(target, rank);
          const int64_t over = candidate.bytes - budget;
          if (consider(std::move(candidate))) break;
          target -= over;
        }
      }
    }
    for (const Candidate& baseline : baselines()) consider(baseline);
    return std::move(*best);
  }

  // The smallest that takes no longer than the step without copies.
  std::optional<Candidate> free_of_charge() const {
    std::optional<Candidate> best;
    for (int part = kTargets - 1; part > 0; --part) {
      const int64_t target = base_.bytes * part / kTargets;
      if (best && best->bytes <= target) continue;
      bool found = false;
      for (const SwapRank rank : kSwapRanks) {
        Candidate candidate = planned(target, rank);
        if (candidate.ms > base_.ms * (1 + kNoTime)) continue;
        found = true;
        if (candidate.bytes < (best ? best->bytes : base_.bytes)) best = std::move(candidate);
      }
      if (!found) break;
    }
    return best;
  }

  const Program& p_;
  const SwapOptions& options_;
  const SwapGoal& goal_;
  const int64_t host_room_;  // for copies
  Candidate base_;
  SwapCosts t_;
  std::vector<SwapUnit> units_;
  mutable std::vector<Candidate> baselines_;
};

}  // namespace

double link_bound_ms(const Program& p, const SwapGoal& goal) {
  const Storages storages = assign_storages(p, goal.workspace, goal.storages);
  const Prediction times = predict(p, goal.device, &storages);
  const std::vector<int64_t> live = live_bytes(p, storages, lifetimes_of(p, storages));
  const double rate = link_bytes_per_ms(goal.device);
  double most = 0;
  for (NodeId n : p.nodes.ids()) {
    const double over = double(live[size_t(start_of(n))] - *goal.budget) / rate;
    const double before = times.end_ms[n] - times.node_ms[n],
                 after = times.step_ms - times.end_ms[n];
    most = std::max(most, std::max(0.0, over - before) + std::max(0.0, over - after));
  }
  return times.step_ms + most;
}

std::optional<Program> swapped(const Program& program, const SwapOptions& options,
                               const SwapGoal& goal, std::string* note) {
  if (options.method == Swap::none) return {};
  return Search(program, options, goal).run(note);
}

}  // namespace pal
