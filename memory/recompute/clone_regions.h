// What one choice of values to make again has beside another, as regions that may be added one by
// one.
#pragma once
#include <vector>

#include "memory/recompute/step_view.h"

namespace pal {

// The nodes that `dear` recomputes and `base` does not, by regions: where one reads another they
// are of one. The regions come in the order of what they save for their time, the most first, each
// from its end: one that is too much as a whole is recomputed from somewhere to its end. `node_ms`:
// what each node takes.
std::vector<NodeId> nodes_by_worth(const StepView& view, const ByNode<double>& node_ms,
                                   const Choice& base, const Choice& dear);

}  // namespace pal
