// More than two jobs as pairs that do not know of each other, each pair with a part of the budget:
// Zico's proposal (Lim et al. 2021, section 4), beside one joint plan for all (corun_plan.h).
#pragma once
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "memory/share/corun_plan.h"

namespace pal {

// Every way to pair the jobs (of an odd number one has a part of its own), and for each pair a few
// parts, from what it needs at least to all that it can use. The list does not depend on the
// budget, so more of it is never slower. Of more than kMostJobs jobs none is tried.
class PairsSearch {
 public:
  static constexpr size_t kMostJobs = 6;

  // Shapes must outlive this.
  explicit PairsSearch(std::vector<const StepShape*> shapes,
                       const CorunSearchOptions& options = {});

  // The fastest within the budget, of the kind groups; nothing where none fits, or where there are
  // fewer than three jobs. `side_by_side`: no job of a pair waits for its turn.
  std::optional<CorunWay> within(int64_t budget, CorunGoal goal = CorunGoal::total,
                                 bool side_by_side = false);

 private:
  struct Try {
    CorunWay way;
    bool in_turns = false;  // a pair is
    bool simulated = false;
  };
  const std::vector<CorunWay>& ways_of(const std::vector<JobId>& group);
  void add(const std::vector<std::vector<JobId>>& groups);

  std::vector<const StepShape*> shapes_;
  CorunSearchOptions options_;
  int64_t own_bytes_ = 0;
  std::vector<double> turns_;  // rates
  std::map<std::vector<JobId>, std::vector<CorunWay>> of_group_;
  std::vector<Try> tries_;
};

// The better of one joint plan and of pairs, as CorunSearch::within and side_by_side.
std::optional<CorunWay> best_way_within(const std::vector<const StepShape*>& shapes, int64_t budget,
                                        CorunGoal goal = CorunGoal::total,
                                        bool side_by_side = false,
                                        const CorunSearchOptions& options = {});

}  // namespace pal
