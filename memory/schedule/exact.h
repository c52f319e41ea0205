// The order of least peak, for small programs.
#pragma once
#include <cstdint>
#include <vector>

#include "memory/schedule/order_graph.h"

namespace pal {

struct ExactOrder {
  std::vector<NodeId> order;
  bool proved = false;  // nothing is below its peak; false: gave up
  int64_t states = 0;   // sets of nodes that were looked at
};

constexpr NodeId kExactNodes = 256;

// Branch and bound over the sets of nodes that can have run (down-sets), from the peak of `start`
// down: is there an order below it? A set from which there is none is remembered, and not entered
// again. A node that leaves no more bytes alive than there were, and runs below the bound, runs at
// once: every order that has it later is as good with it here.
//
// The bytes alive between two nodes depend on the set of nodes that have run alone, also with
// in-place decisions: an operand that dies where an output of its size is born saves bytes while
// its node runs, and at no other time. The one exception is an operand that is written into a
// larger storage because its reader's output has a place there (OrderGraph::plain is false); here
// it counts as if it were not, so that the true peak may be below the one that is minimized, never
// above.
//
// `start` is an order of the graph's, of at most kExactNodes nodes; gives up after `most_states`.
ExactOrder exact_order(const OrderGraph& graph, std::vector<NodeId> start, int64_t most_states);

}  // namespace pal
