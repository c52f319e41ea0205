// Counts copies, and compares the step with its compute alone.
#include "memory/price/traffic.h"

#include <algorithm>

#include "memory/storages/lifetimes.h"
#include "ops/tensors/transfers.h"

namespace pal {

Traffic traffic_of(const Program& p, const Storages& storages, const Prediction& times) {
  Traffic out;
  double compute = 0;
  for (NodeId n : p.nodes.ids()) {
    const Node& node = p.node(n);
    if (node.phase == Phase::offload || node.phase == Phase::reload) {
      (node.phase == Phase::offload ? out.offloads : out.reloads) += 1;
      out.moved_bytes += p.value(node.in[0]).spec.bytes();
      out.copy_ms += times.node_ms[n];
    } else {
      compute += times.node_ms[n];
      out.recomputes +=
          node.phase == Phase::recompute && node.op != &move_op && times.node_ms[n] > 0;
    }
  }
  out.stall_ms = std::max(0.0, times.step_ms - compute);
  out.host_bytes = peak_of(storages, lifetimes_of(p, storages), Space::host).bytes;
  return out;
}

bool has_copies(const Program& program) {
  return std::any_of(program.nodes.begin(), program.nodes.end(), [](const Node& node) {
    return node.phase == Phase::offload || node.phase == Phase::reload;
  });
}

}  // namespace pal
