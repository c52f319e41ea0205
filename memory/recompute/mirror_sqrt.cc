// Two choices that look at no bytes.
#include "memory/recompute/mirror_sqrt.h"

#include <algorithm>
#include <cmath>

namespace pal {

Choice choose_mirror(const StepView& view) {
  Choice choice(view.program.values.size(), 0);
  for (size_t v = 0; v < choice.size(); ++v) {
    const NodeId producer = view.program.values[v].producer;
    choice[v] = !view.pinned[v] && !view.heavy[producer];
  }
  return choice;
}

Choice choose_sqrt(const StepView& view) {
  const Program& p = view.program;
  ByNode<int64_t> segment(p.nodes.size(), -1);
  int64_t forward = 0;
  for (const Node& node : p.nodes) forward += node.phase == Phase::forward;
  const int64_t segments = std::max<int64_t>(1, std::llround(std::sqrt(double(forward))));
  int64_t seen = 0;
  for (size_t n = 0; n < p.nodes.size(); ++n) {
    if (p.nodes[n].phase == Phase::forward) segment[n] = seen++ * segments / forward;
  }
  Choice choice(p.values.size(), 0);
  for (size_t v = 0; v < choice.size(); ++v) {
    if (view.pinned[v]) continue;
    const int64_t own = segment[p.values[v].producer];
    choice[v] = std::all_of(view.readers[v].begin(), view.readers[v].end(),
                            [&](NodeId r) { return segment[r] == -1 || segment[r] == own; });
  }
  return choice;
}

}  // namespace pal
