// Recomputation: forward values that the backward pass makes again instead of keeping them.
//
// A method decides which values (mirror_sqrt.h, echo.h); clones.h adds the nodes that make them
// again. Whatever set of values is chosen, results are the same bits; only bytes and time differ.
#pragma once
#include <string>

#include "core/program.h"
#include "memory/recompute/options.h"

namespace pal {

// The step with recomputation, or as it was when that would not lower its footprint. `note` says
// what was done: nodes, flops and bytes moved that were added.
Program recompute(const Program& program, Recompute method, const FootprintOf& footprint,
                  std::string* note = nullptr, const RecomputeOptions& options = {},
                  const RecomputeGoal& goal = {});

}  // namespace pal
