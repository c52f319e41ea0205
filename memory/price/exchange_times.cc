// The step with exchanges, less the step as if they took no time.
#include "memory/price/exchange_times.h"

#include <algorithm>

#include "core/op.h"

namespace pal {

ExchangeTimes exchange_times(const Program& program, const Prediction& times) {
  ExchangeTimes out;
  ByNode<double> others = times.node_ms;
  for (NodeId n : program.nodes.ids()) {
    if (!program.node(n).op->collective) continue;
    ++out.count, out.ms += times.node_ms[n], others[n] = 0;
  }
  if (out.count == 0) return out;
  const double without = step_ms_of(program, others);
  out.exposed_ms = std::max(0.0, step_ms_of(program, times.node_ms) - without);
  return out;
}

}  // namespace pal
