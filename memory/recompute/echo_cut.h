// Echo (Zheng, Vijaykumar, Pekhimenko, ISCA 2020): which feature maps are worth recomputing, at a
// price for time.
//
// Algorithm 1, on a flat program:
//   partition  Compute-heavy nodes are never run again, so regions end at them. Whether a heavy
//              node's gradient needs its inputs or its output need not be asked (the paper's dummy
//              gradient): the program shows it. A heavy node whose output no gradient reads is dead
//              on the recomputation path by itself, and its inputs are targets.
//   backward   From every value that the backward pass reads, expand to its producer's operands,
//              and on, until heavy nodes, state and inputs. A value whose readers would be further
//              than `near` nodes apart ends a region too: it would be made at the first and kept
//              for the last. So a chain through time (an LSTM's c) is cut into short pieces.
//   forward    Of each region, recompute only what releases more bytes than it stashes anew, with
//              reuse counted across the whole region (sections IV-A, V-A). The paper drops nodes
//              one by one in topological order; here the best set is found at once, as a minimum
//              cut (memory/recompute/min_cut.h), so that one shared operand with many small
//              outputs, or many operands of one large output, weigh as they should. Running a node
//              again costs its time at the price. Ties keep the forward value.
//   bits       Where gradients ask only a predicate of a value (BinarizableOps), the cut may also
//              do without it for one bit an element: less than stashing it, more than making it
//              again from what is there anyway.
#pragma once
#include <span>
#include <vector>

#include "memory/recompute/min_cut.h"
#include "memory/recompute/step_view.h"

namespace pal {

// What bounds a region.
struct EchoRegions {
  NodeId near = 64;  // nodes between the first and the last reader of a value that is made again
  double heavy = RecomputeOptions{}.heavy;  // nodes of as many flops a byte are not run again
};

// For each value that gradients read: its bytes as bits, where these are all that gradients need;
// else -1. If something else needs such a value whole, it is there anyway.
std::vector<int64_t> bytes_as_bits(const StepView& view);

// Linear but for the cuts, whose paths are as short as the regions are deep; a cut begins with the
// flow of the one before: a few milliseconds for a step of 20,000 nodes, and less for each price
// that follows. A higher price chooses a part of what a lower one does, as in a parametric cut
// (Gallo, Grigoriadis, Tarjan 1989).
class EchoCut {
 public:
  // `node_ms`: what running a node again takes. `as_bits`: of bytes_as_bits(), or empty: no bits.
  EchoCut(const StepView& view, const EchoRegions& regions, std::span<const double> node_ms,
          const std::vector<int64_t>& as_bits = {});

  // What to recompute where a millisecond must save this many bytes. Prices may only rise from call
  // to call.
  Choice choose(double bytes_per_ms);

 private:
  struct Priced {
    int edge;
    double ms;
    int64_t cost;  // so far
  };
  bool is_target(ValueId v) const;
  void expand(const EchoRegions& regions);
  void survey();
  void connect(size_t v);

  const StepView& view_;
  const Program& p_;
  const std::span<const double> node_ms_;
  const std::vector<int64_t>& as_bits_;
  NodeId last_forward_ = 1;
  ByNode<char> candidate_;
  ByValue<NodeId> first_, last_;    // when it is read, if all is recomputed that can be
  ByStorage<char> able_;            // some candidate makes it
  ByStorage<int32_t> members_;      // values that may be recomputed
  ByNode<int32_t> makes_;           // those
  std::vector<int> needed_, made_;  // vertices by storage
  std::vector<int> node_;           // vertices by node that may run again
  std::vector<Priced> priced_;      // edges whose capacity is a time
  MinCut cut_;
};

}  // namespace pal
