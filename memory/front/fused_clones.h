// Which nodes of a step become one kernel: clones, or clones and a gradient, if they all run again,
// and those that run once.
#pragma once
#include <vector>

#include "memory/passes/fuse_recompute.h"
#include "memory/price/predict.h"
#include "memory/recompute/step_view.h"

namespace pal {

// Milliseconds of each node, where none runs again.
struct StepTimes {
  ByNode<double> alone;    // by itself
  ByNode<double> in_step;  // its part of kernels', by what they take alone
};
StepTimes step_times(const Program& program, const DeviceProfile& device, const Fusions& fusions);

// Where all of `nodes` run again, and nobody else reads `interior`, that is never in memory, and
// the step takes less.
struct FusedClones {
  std::vector<NodeId> nodes;
  std::vector<ValueId> interior;
  std::vector<NodeId> gradients;  // that are part of it
  double saved_ms = 0;
};

// Found by fusing a step in which everything runs again that can (memory/passes/fuse_recompute.h).
// `times`: of the view's step.
std::vector<FusedClones> fused_clones(const StepView& view, const StepTimes& times,
                                      const DeviceProfile& device, const Fusions& fusions);

}  // namespace pal
