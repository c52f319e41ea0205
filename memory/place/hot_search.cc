// Which buffers are hot, and what becomes of the others.
#include "memory/place/hot_search.h"

#include <algorithm>
#include <numeric>

#include "memory/place/buffers/load.h"
#include "memory/place/orders.h"
#include "memory/place/search/search.h"

namespace pal {

void HotSearch::choose(size_t most) {
  const int64_t bound = lower_bound_of(buffers_);
  hot_.clear();
  for (int percent : {0, 80, 90, 95, 98, 99, 100}) {
    chosen_ = alive_above(buffers_, std::max<int64_t>(bound * percent / 100, 1));
    if (chosen_.size() <= most) break;
  }
  if (chosen_.size() > most) return;
  grain_ = 0;
  for (int32_t i : chosen_) grain_ = std::gcd(grain_, buffers_[i].size);
  for (int32_t i : chosen_) {
    hot_.push_back(buffers_[i]);
    hot_.back().size /= grain_;
  }
}

bool HotSearch::run(int64_t capacity, int64_t enough, int64_t nodes, double part_of_time,
                    SearchBudget& budget, Placement& best) {
  const Deadline deadline = share(budget.deadline, part_of_time);
  const SearchLimits limits{deadline ? INT64_MAX : nodes, deadline};
  const SearchResult found = search_placement(hot_, capacity / grain_, limits);
  budget.charge(std::max<int64_t>(found.nodes, 1));
  if (found.answer == SearchResult::kInfeasible)
    proven_ = std::max(proven_, (capacity / grain_ + 1) * grain_);
  if (found.answer != SearchResult::kFound) return false;
  lay_around(found.offset, enough, deadline, best);
  return true;
}

void HotSearch::lay_around(const std::vector<int64_t>& offset, int64_t enough,
                           const Deadline& deadline, Placement& best) const {
  std::vector<int64_t> frozen(buffers_.size(), -1);
  for (size_t i = 0; i < hot_.size(); ++i) frozen[chosen_[i]] = offset[i] * grain_;
  const int64_t height = best.height;
  try_orders(buffers_, enough, frozen, deadline, best);
  if (best.height < height) best.order = "search";
}

}  // namespace pal
