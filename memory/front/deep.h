// Plans that rerun segments from their borders, some of them several times: for many budgets at
// once, where the step has borders (memory/front/segments.h).
#pragma once
#include <vector>

#include "memory/compiled.h"

namespace pal {

struct DeepPlan {
  std::vector<Rerun> reruns;  // for RecomputeOptions
  int64_t claimed = 0;        // bytes at the peak by the chain's count
  int64_t bytes = 0;          // alive at the peak, counted in the step with early updates
  // The less of the two. Claims have maps as bits that are kept whole where they are made again in
  // the backward pass; other passes may bring the step down to the claim all the same.
  int64_t least = 0;
  double ms = 0;        // predicted, with early updates
  double added_ms = 0;  // to the step without reruns
};

// The best for up to `budgets` budgets, without those that another beats in both `least` and time.
// Empty where the step has no borders. `program`: recorded.
std::vector<DeepPlan> deep_plans(const Program& program, const CompileOptions& options,
                                 const DeviceProfile& device, int budgets = 32);

}  // namespace pal
