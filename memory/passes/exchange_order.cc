// One walk.
#include "memory/passes/exchange_order.h"

#include "core/op.h"

namespace pal {

void order_exchanges(Program& program) {
  NodeId last = kNone;
  for (NodeId n : program.nodes.ids()) {
    Node& node = program.node(n);
    if (!node.op->collective) continue;
    node.waits.clear();
    if (last != kNone) node.waits = {last};
    last = n;
  }
}

}  // namespace pal
