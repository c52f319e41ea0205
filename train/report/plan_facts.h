// What a report of a plan is told beside the plan.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace pal {

// What a plan does not know of itself.
struct PlanFacts {
  std::optional<int64_t> capacity = {};  // bytes that the step should fit; none: any
  int64_t samples = 0;                   // of the planned program's batch; 0: not known
  // Of sparse maps: the run that measured their densities; "": they are assumed, or nothing is
  // sparse.
  std::string densities_from = {};
  // What the step takes without sparse maps, which a run begins with and falls back on; and whether
  // it recomputes to keep to the budget.
  std::optional<int64_t> dense_bytes = {};
  bool dense_recomputes = false;
  // What it would take with sparse maps, where a run keeps none: over the budget, or not a
  // per cent less.
  std::optional<int64_t> sparse_bytes = {};
  std::optional<int64_t> max_batch = {}, max_depth = {};  // where asked for; 0: nothing fits
};

}  // namespace pal
