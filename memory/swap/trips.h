// Which bytes could be away from the device between two nodes, and the step with the copies that
// take them away and bring them back.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/program.h"
#include "memory/price/predict.h"
#include "memory/storages/storages.h"

namespace pal {

// A unit's bytes are idle between these nodes: the last that touches them before, the first after.
struct Gap {
  NodeId after, before;
};

// Values that share bytes through windows, and so can only leave together. Views of what is copied
// are made again, since that costs nothing.
struct SwapUnit {
  std::vector<ValueId> copied;  // no views; read after the first gap
  std::vector<NodeId> touches;  // the nodes that read or write any of it, in order
  int64_t bytes = 0;            // that the device gets back while they are away
  NodeId made = kNone;          // the node after which all of it has been made
  bool is_map = false;          // has a feature map
  std::vector<Gap> gaps;        // in order; only after it has been made
};

// Everything that could leave, in order of storages: made by nodes on the device, neither state nor
// an output of the program, at least `least` bytes.
std::vector<SwapUnit> swap_units(const Program& program, int64_t least);
// Fewer bytes are not worth a copy in a step of so many at its peak.
int64_t least_worth_copying(int64_t peak);

// What the device's link carries one way; 0: there is none.
double link_bytes_per_ms(const DeviceProfile& device);
// One way: a copy for each value.
double copy_ms(const Program& program, const SwapUnit& unit, const DeviceProfile& device);

// The gap between the forward and the backward pass; none: the unit is not a stash.
std::optional<Gap> stashed_gap(const Program& program, const SwapUnit& unit);

// A unit leaves once `leave` has run, and is back before `come` runs: within one of its gaps.
struct Trip {
  size_t unit;
  NodeId leave, come;
  // A node before which the copy may not begin; kNone: it begins once its bytes are made.
  NodeId not_before = kNone;
};

// The step with the copies, in one logical order (memory/passes/assign_queues.h). Trips of one unit
// lie in different gaps; only the first one copies out.
Program with_trips(const Program& program, const std::vector<SwapUnit>& units,
                   std::vector<Trip> trips);

}  // namespace pal
