// What a step's launches would take on a device: a roofline for each, and what a launch costs.
#pragma once
#include <span>
#include <vector>

#include "core/kernel_counter.h"
#include "memory/price/demand.h"

namespace pal {

// A unit's memory is busy when it has so many threads that each wait for 32 bytes; a grid of fewer
// than that on all units gets its part of the bandwidth. Little's law with 36 GB/s a unit and 0.5
// us from request to answer; assumed, not measured.
constexpr double kBusyThreads = 512;

// Milliseconds of each launch of a node that does `work` altogether. A library's part and what
// tensor cores do run at the rate of products; all other flops of a node that no library has a part
// in at `vector`, in proportion to the bytes of its kernels. `graph`: the step was recorded.
std::vector<double> launch_times(const Work& work, std::span<const LaunchCount> launches,
                                 const DeviceProfile& device, bool graph);
// What they take of the device: what launches cost first, then their work in one piece, with the
// means of what they use. Of what they can reach of a resource: two that read memory as fast as one
// kernel can gain nothing by reading it side by side.
NodeDemand demand_of_launches(const Work& work, std::span<const LaunchCount> launches,
                              const DeviceProfile& device, bool graph);
// The least that the node takes: its own bytes and flops at full rates, and one launch where it
// launches anything.
double least_ms(const Work& work, bool launches, const DeviceProfile& device, bool graph);

}  // namespace pal
