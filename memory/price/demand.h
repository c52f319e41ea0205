// What a node takes of a device while it runs, for running two jobs' nodes at once.
#pragma once
#include "memory/price/predict.h"

namespace pal {

// A node that runs alone launches for launch_ms, and then works for work_ms, in which it uses parts
// of the device, each at most 1.
struct NodeDemand {
  double idle_ms = 0;  // before it, in which the step waits for copies
  double launch_ms = 0, work_ms = 0;
  double flops = 0;   // of the peak rate that it can use
  double memory = 0;  // of the memory's rate
  double units = 0;   // of the multiprocessors: those that have a piece of its result

  // It works, and leaves some of the multiprocessors to others.
  bool is_light() const { return units > 0 && units < 1; }
};

NodeDemand demand_of(const Work& work, const DeviceProfile& device);

}  // namespace pal
