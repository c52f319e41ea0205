// Which clones would become one kernel, or part of a gradient's, if they all run again.
#pragma once
#include <vector>

#include "memory/price/predict.h"
#include "memory/recompute/step_view.h"

namespace pal {

// Where all of `nodes` run again, and nobody else reads `interior`, that is never in memory, and
// the step takes less.
struct FusedClones {
  std::vector<NodeId> nodes;
  std::vector<ValueId> interior;
  std::vector<NodeId> gradients;  // that are part of it
  double saved_ms = 0;
};

// Found by fusing a step in which everything runs again that can (memory/passes/fuse_recompute.h).
std::vector<FusedClones> fused_clones(const StepView& view, const DeviceProfile& device);

}  // namespace pal
