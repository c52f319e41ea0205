// Echo's candidates, and which of them a step takes.
//
// A candidate is what the cut (memory/recompute/echo_cut.h) chooses within some bounds of regions,
// at some price for time. Which candidates there are depends on the step alone, not on the time or
// the bytes that are allowed, and each has its bytes and its time. Taken is the candidate of the
// fewest bytes whose time is within the allowed overhead; or, where there is a budget and that one
// does not fit, the fastest that does; or else the smallest of all. The step without recomputation
// is one of them. So more time never costs bytes, and a budget that a candidate meets is met.
#pragma once
#include "memory/price/predict.h"
#include "memory/recompute/clones.h"

namespace pal {

// The card of the paper (RTX 2080 Ti), as its data sheet has it: whatever the step will run on, the
// same is recomputed.
inline const DeviceProfile kEchoDevice{.name = "RTX 2080 Ti",
                                       .f32 = 13.4e12,
                                       .vector = 13.4e12,
                                       .memory = 616e9,
                                       .link = 15.75e9,
                                       .launch = 5e-6,
                                       .tile = 1};

// The candidate that the goal asks for; nothing where that is the step as it is. `footprint` has
// the last word on whether a candidate fits the budget.
Clones best_echo(const StepView& view, const RecomputeOptions& options, const RecomputeGoal& goal,
                 const FootprintOf& footprint);

}  // namespace pal
