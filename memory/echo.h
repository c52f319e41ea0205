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
//              short pieces. Several distances are tried.
//   forward    Of each region, recompute only what releases more bytes than it stashes anew, with
//              reuse counted across the whole region (sections IV-A, V-A). The paper drops nodes
//              one by one in topological order; here the best set is found at once, as a minimum
//              cut (memory/echo_cut.h), so that one shared operand with many small outputs, or many
//              operands of one large output, weigh as they should. Ties keep the forward value.
//   bits       Where gradients ask only a predicate of a value (BinarizableOps), the cut may also do
//              without it at the price of one bit for each element: less than stashing it, more than
//              making it again from what is there anyway.
//
// Linear but for the cut, whose paths are as short as the regions are deep: a few milliseconds for a
// step of 20,000 nodes.
#pragma once
#include <array>

#include "memory/predict.h"
#include "memory/recompute.h"

namespace pal {

// The card of the paper (RTX 2080 Ti), as its data sheet has it: whatever the step will run on, the
// same is recomputed.
inline const DeviceProfile kEchoDevice{.name = "RTX 2080 Ti", .f32 = 13.4e12, .vector = 13.4e12,
                                       .memory = 616e9, .link = 15.75e9, .launch = 5e-6, .tile = 1};

// Prices tried in turn, until what they leave is cheap enough: bytes moved for a byte saved are
// divided by `dearer`, and starting a node counts as moving `launch_bytes` (5 us of that card).
struct EchoPrice {
  double dearer, launch_bytes;
};
constexpr std::array<EchoPrice, 3> kEchoPrices = {{{1, 0}, {8, 3e6}, {32, 3e6}}};

// What counts as near, tried in turn; the one with the smallest footprint is used. The last is any
// distance: where the peak lies between the phases (a vocabulary's scores), even a whole chain that
// is made again at once is better than one that is kept, as it comes after the peak.
constexpr std::array<NodeId, 4> kEchoDistances = {64, 256, 1024, NodeId{1} << 30};
// Clones of nodes whose operands are there anyway serve readers at most so far apart.
constexpr NodeId kEchoFar = 1024;

Choice choose_echo(const StepView& view, NodeId near, const RecomputeOptions& options);

}  // namespace pal
