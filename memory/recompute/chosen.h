// Recomputation of given values: what a planner chose (memory/front/choose.h), value by value.
#pragma once
#include "memory/recompute/clones.h"
#include "memory/recompute/step_view.h"

namespace pal {

// The step in which RecomputeOptions::chosen run again: clones, and bits where options.bits.
// ProgramError where a chosen value is none of the step's. `view`: with infinite
// RecomputeOptions::heavy.
Clones chosen_clones(const StepView& view, const RecomputeOptions& options);

}  // namespace pal
