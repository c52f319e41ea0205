// Echo (Zheng, Vijaykumar, Pekhimenko, ISCA 2020): which feature maps are worth recomputing.
//
// Algorithm 1, on a flat program:
//   partition  Compute-heavy nodes are never run again, so regions end at them. Whether a heavy
//              node's gradient needs its inputs or its output need not be asked (the paper's dummy
//              gradient): the program shows who reads what. A heavy node whose output no gradient
//              reads is dead on the recomputation path by itself, and its inputs are targets.
//   backward   From every value that the backward pass reads, expand to its producer's operands,
//              and on, until heavy nodes, state and inputs. A value whose readers would be further
//              than `near` nodes apart ends a region too: it would be made at the first and kept
//              for the last, and nothing won. So a chain through time (an LSTM's c) is cut into
//              short pieces. Several distances are tried (memory/recompute/echo_trials.h).
//   forward    Of each region, recompute only what releases more bytes than it stashes anew, with
//              reuse counted across the whole region (sections IV-A, V-A). The paper drops nodes
//              one by one in topological order; here the best set is found at once, as a minimum
//              cut (memory/recompute/echo_cut.h), so that one shared operand with many small
//              outputs, or many operands of one large output, weigh as they should. Ties keep the
//              forward value.
//   bits       Where gradients ask only a predicate of a value (BinarizableOps), the cut may also
//              do without it at the price of one bit for each element: less than stashing it, more
//              than making it again from what is there anyway.
//
// Linear but for the cut, whose paths are as short as the regions are deep: a few milliseconds for
// a step of 20,000 nodes.
#pragma once
#include <limits>

#include "memory/passes/forms.h"
#include "memory/recompute/step_view.h"

namespace pal {

// One candidate: what it asks of a node.
struct EchoTrial {
  NodeId near = 64;
  double exchange = RecomputeOptions{}.exchange;  // bytes that may be moved for each that is saved
  double launch_bytes = 0;                        // what starting a node costs, in bytes moved
  double balance = std::numeric_limits<double>::infinity();  // flops in the time of moving a byte
  bool bits = true;              // bits in place of values, where they suffice
  const Forms* forms = nullptr;  // how stashed values will be kept; null: as they are
};

Choice choose_echo(const StepView& view, const EchoTrial& trial);

}  // namespace pal
