// Recomputation node by node: which forward node runs again, and before which backward node
// (RecomputeOptions::reruns). A node may run again several times, so that a value that was made
// again may die and be made once more: what a cut cannot say, and what plans that rerun segments
// from their borders need (memory/front/segments.h).
//
// An operand is read in the version that was made last. So a value's bytes are free from the last
// reader of one version to the rerun that makes the next. Results that nobody reads are not made,
// and a rerun of which nothing is read is left out.
#pragma once
#include "memory/recompute/clones.h"
#include "memory/recompute/step_view.h"

namespace pal {

// UsageError where a rerun's node is none of the forward phase or reads state that is overwritten
// before, or its place is not in the backward phase, comes before the node, or does not ascend.
Clones insert_reruns(const StepView& view, const std::vector<Rerun>& reruns);

// The same with bits, where options.bits. `view`: of the step in parts.
Clones rerun_clones(const StepView& view, const RecomputeOptions& options);

}  // namespace pal
