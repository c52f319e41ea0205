// A step's branches side by side on one device: which nodes go to a second queue. By the shape of
// the program alone: the two directions of a recurrent layer, their gradients, layers of which the
// second follows the first a time step behind, gradients of weights beside those of maps.
#pragma once
#include <vector>

#include "core/program.h"
#include "memory/price/demand.h"

namespace pal {

struct Branched {
  Program program;
  std::vector<NodeId> order;  // of its nodes, the numbers in the program on one queue
  // Of each node: whom it must let end on the other queue, so as not to be too far ahead. No value
  // needs that, so it is no wait of the program: it tells simulations when the node begins, whose
  // bytes are planned for then.
  ByNode<NodeId> held;

  Program with_held() const;  // as waits
};

// The nodes of a program with one queue, on two, in the order in which they begin; each waits for
// those of the other queue that make its operands, and where it writes state for the old one's
// readers and the loss.
//
// A list schedule: a queue that is free takes the first node in program order that is ready and
// whose operands came last from its own; where there is none, one of the other's that would begin
// there later by more than its launch takes. So a chain stays on its queue. `ahead`: no node begins
// while so many before it in program order have not, since what is made early is alive for long.
Branched with_branches(const Program& program, const ByNode<NodeDemand>& demands, NodeId ahead);

}  // namespace pal
