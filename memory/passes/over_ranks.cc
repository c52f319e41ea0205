// One walk; the operators say what the parts are.
#include "memory/passes/over_ranks.h"

#include "core/rewrite.h"
#include "core/rewriter.h"
#include "memory/passes/exchange_order.h"
#include "memory/passes/parts.h"

namespace pal {

Program over_ranks(const Program& program, int64_t ranks) {
  Rewriter out(program);
  for (NodeId n : program.nodes.ids()) {
    Node node = program.node(n);
    if (node.op->collective) node.waits.clear();  // they come back below
    if (node.op->over_ranks) {
      const FusedPattern parts = node.op->over_ranks(specs_of(program, node.in), node.attrs, ranks);
      append_parts(out, n, node, parts);
    } else {
      out.replace(n, std::move(node));
    }
  }
  Program made = out.finish();
  order_exchanges(made);
  return made;
}

}  // namespace pal
