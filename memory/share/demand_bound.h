// What no schedule can do better than: jobs together cannot have more of the device than there is.
#pragma once
#include <vector>

#include "memory/share/step_shape.h"

namespace pal {

// The part of the device that a step asks for, on average over its time alone: of the peak rates,
// of the memory's rate, of the multiprocessors.
struct DeviceUse {
  double flops = 0, memory = 0, units = 0;
  double most() const;  // of the three
};
DeviceUse use_of(const StepShape& shape);

// The highest sum of rates relative to alone that any order of the jobs' nodes can have, given all
// memory: no job is faster than alone, and together they use no more than all of each resource. Of
// two jobs more is known: beside a long node that asks for all multiprocessors the other goes on by
// one stretch of its steps, and no stretch asks for less than some (as `least` is not given).
// `least`: rates below which no job may be (those of turns, say), or empty; nothing where those
// cannot be.
struct DemandBound {
  double total = 0;
  std::vector<double> rate = {};  // one way to have it
};
DemandBound demand_bound(const std::vector<const StepShape*>& jobs,
                         const std::vector<double>& least = {});

}  // namespace pal
