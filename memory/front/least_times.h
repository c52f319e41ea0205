// The least time that each node of a step can take, whatever a plan makes of it: what a bound of
// the step's time may count on.
//
// A plan runs a node as it is, as parts of it (Rewrite::When::split), or as a piece of another
// node (every other rewrite). Each node gets a share of the time of every such variant in which it
// occurs, so that the shares of a variant's nodes sum to at most its time; the node's least time is
// the smallest share. So the sum of least times over the nodes that a plan runs is never above what
// the plan takes, by the same roofline. Variants are looked for in the step as it was recorded and
// in the step with everything made again, and once more in these as they are fused: a variant that
// is a piece of another one is priced as it is. A variant of such a variant is not looked for.
// Those of cards alone are counted on everywhere: a bound may be too low.
#pragma once
#include <cstdint>

#include "memory/compiled.h"

namespace pal {

// Nodes and operands are those of the step in parts (split_parts()).
struct LeastTimes {
  ByNode<double> once, again;  // ms of running it, and of running a clone of it
  ByNode<char> fuses;          // may run as a piece of another node
  ByNode<uint64_t> spared;     // bit k: as a piece of another node it does without operand k
};

// `parts`: split_parts() of `recorded`, or `recorded` itself; of each value the origin is its own
// number. The options say which fusions a plan may have; `bits`: whether nodes may read bits where
// they ask a predicate.
LeastTimes least_times(const Program& recorded, const Program& parts, const CompileOptions& options,
                       const DeviceProfile& device, bool bits = true);

}  // namespace pal
