// Pairings, parts of the budget, and what all do side by side.
#include "memory/share/pairs_plan.h"

#include <algorithm>

#include "core/spec.h"

namespace pal {
namespace {

using Groups = std::vector<std::vector<JobId>>;

// The lowest of `left` with each of the others, or alone where they are odd in number.
void pair_up(std::vector<JobId> left, Groups& groups, std::vector<Groups>& out) {
  if (left.empty()) return out.push_back(groups);
  const JobId job = left.front();
  left.erase(left.begin());
  for (size_t i = 0; i < left.size(); ++i) {
    std::vector<JobId> rest = left;
    rest.erase(rest.begin() + std::ptrdiff_t(i));
    groups.push_back({job, left[i]});
    pair_up(std::move(rest), groups, out);
    groups.pop_back();
  }
  if (left.size() % 2) return;
  groups.push_back({job});
  pair_up(std::move(left), groups, out);
  groups.pop_back();
}

// How many parts of the budget are tried for each pair, by how many pairs there are.
int parts_of(size_t groups) { return groups <= 2 ? 6 : 2; }

}  // namespace

PairsSearch::PairsSearch(std::vector<const StepShape*> shapes, const CorunSearchOptions& options)
    : shapes_(std::move(shapes)), options_(options), turns_(rates_in_turns(shapes_)) {
  if (shapes_.size() < 3 || shapes_.size() > kMostJobs) return;
  std::vector<JobId> all;
  for (size_t j = 0; j < shapes_.size(); ++j) {
    all.push_back(JobId(j));
    own_bytes_ += shapes_[j]->own_bytes;
  }
  std::vector<Groups> pairings;
  Groups groups;
  pair_up(std::move(all), groups, pairings);
  for (const Groups& pairing : pairings) add(pairing);
}

const std::vector<CorunWay>& PairsSearch::ways_of(const std::vector<JobId>& group) {
  const auto [at, is_new] = of_group_.try_emplace(group);
  std::vector<CorunWay>& ways = at->second;
  if (!is_new) return ways;
  std::vector<const StepShape*> shapes;
  for (const JobId j : group) shapes.push_back(shapes_[size_t(j)]);
  CorunSearch search(shapes, options_);
  if (group.size() == 1) {
    ways.push_back(search.beside());
    ways[0].pool_bytes = align_up(ways[0].pool_bytes);
    return ways;
  }
  const int parts = parts_of((shapes_.size() + 1) / 2);
  for (int i = 0; i < parts; ++i) {
    const int64_t more = (search.most_bytes() - search.least_bytes()) * i / std::max(1, parts - 1);
    CorunWay way = *search.within(search.least_bytes() + more);
    way.pool_bytes = align_up(way.pool_bytes);
    if (way.kind == CorunWay::Kind::beside) {
      way.pool_bytes = align_up(search.part_of(0)) + align_up(search.part_of(1));
    }
    // No more bytes for no more steps.
    if (ways.empty() || way.total > ways.back().total) ways.push_back(std::move(way));
  }
  return ways;
}

void PairsSearch::add(const Groups& groups) {
  std::vector<Try> tries(1);
  tries[0].way.kind = CorunWay::Kind::groups;
  for (const std::vector<JobId>& group : groups) {
    std::vector<Try> longer;
    for (const Try& t : tries) {
      for (const CorunWay& of_group : ways_of(group)) {
        Try& next = longer.emplace_back(t);
        next.way.groups.push_back(of_group), next.way.members.push_back(group);
        next.way.pool_bytes += of_group.pool_bytes;
        next.in_turns |= of_group.kind == CorunWay::Kind::turns;
        // One can go first of all: who does in the first pair that wants it.
        if (!next.way.first.any() && of_group.first.any()) {
          next.way.first = of_group.first;
          if (of_group.first.job >= 0) next.way.first.job = group[size_t(of_group.first.job)];
        }
      }
    }
    tries = std::move(longer);
  }
  std::move(tries.begin(), tries.end(), std::back_inserter(tries_));
}

std::optional<CorunWay> PairsSearch::within(int64_t budget, CorunGoal goal, bool side_by_side) {
  const CorunWay* best = nullptr;
  for (Try& t : tries_) {
    if (t.way.pool_bytes > budget - own_bytes_ || (side_by_side && t.in_turns)) continue;
    if (!t.simulated) simulate_way(t.way, shapes_), t.simulated = true;
    if (best && t.way.total <= best->total) continue;
    bool all_gain = true;
    for (size_t j = 0; j < turns_.size(); ++j) all_gain &= t.way.rate[j] >= turns_[j];
    if (goal == CorunGoal::fair && !all_gain) continue;
    if (starves(t.way, turns_)) continue;
    best = &t.way;
  }
  return best ? std::optional(*best) : std::nullopt;
}

std::optional<CorunWay> best_way_within(const std::vector<const StepShape*>& shapes, int64_t budget,
                                        CorunGoal goal, bool side_by_side,
                                        const CorunSearchOptions& options) {
  CorunSearch joint(shapes, options);
  auto way = side_by_side ? joint.side_by_side(budget, goal) : joint.within(budget, goal);
  if (shapes.size() < 3) return way;
  const auto pairs = PairsSearch(shapes, options).within(budget, goal, side_by_side);
  return pairs && (!way || pairs->total > way->total) ? pairs : way;
}

}  // namespace pal
