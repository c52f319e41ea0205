// Plans that rerun segments from their borders, some of them several times, and copy borders and
// maps to the host: for many budgets at once, where the step has borders (memory/front/segments.h).
#pragma once
#include <vector>

#include "memory/compiled.h"

namespace pal {

struct DeepPlan {
  std::vector<Rerun> reruns;  // for RecomputeOptions
  std::vector<ValueId> away;  // for SwapOptions
  int64_t claimed = 0;        // bytes at the peak by the chain's count
  int64_t bytes = 0;  // alive at the peak, counted in the step with early updates, without copies
  // The less of the two. Claims have maps as bits that are kept whole where they are made again in
  // the backward pass; other passes may bring the step down to the claim all the same. With copies
  // the claim.
  int64_t least = 0;
  double ms = 0;        // predicted, with early updates; nothing waits for copies
  double added_ms = 0;  // to the step without reruns
};

// Each without those that another beats in both `least` and time.
struct DeepPlans {
  std::vector<DeepPlan> alone, with_copies;
};

// The best for up to `budgets` budgets, each way; copies where the device has a link. Empty where
// the step has no borders. `program`: recorded.
DeepPlans deep_plans(const Program& program, const CompileOptions& options,
                     const DeviceProfile& device, int budgets = 32);

}  // namespace pal
