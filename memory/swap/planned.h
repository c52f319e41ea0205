// Which units leave, and when: chosen for a number of bytes, and timed so that compute waits as
// little as it can.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "core/ids.h"
#include "memory/swap/trips.h"

namespace pal {

// What a step looks like without copies.
struct SwapCosts {
  ByNode<double> node_ms;
  // On the device while a node runs; and between it and the next, when what has not left yet is
  // still there and what comes back for the next is there already.
  ByNode<int64_t> during, after;
  std::vector<double> copy_ms;  // by unit, one way
};

// By what units are chosen while bytes must go at a peak.
enum class SwapRank : uint8_t {
  free_time,  // Capuchin: from when it can be out to when it must come back
  earliest,   // made first
  largest,    // the most bytes
};

// Trips so that at most `target` bytes are on the device at every node, or as few as can be.
//
// First units are taken, the best by `rank` among those idle at the highest peak, until nothing is
// above the target; those that turn out not to be needed stay. Then the step is simulated: copies
// out begin when their bytes are made, one after the other; bytes are given up when their copy is
// done, or when the next node needs them, which then waits. Copies in are booked from the end of
// the step back, each as late as its reader allows, but not while that many bytes are not free.
//
// All copies together have at most `host_room` bytes. Where some node stays above the target, the
// target of the others is what that has. With `below` these go on to their own, by so many trips
// more as there are nodes: what compute waits for may then come down further.
std::vector<Trip> planned_trips(const std::vector<SwapUnit>& units, const SwapCosts& times,
                                int64_t target, SwapRank rank, int64_t host_room,
                                bool below = false);
// The same of these alone: the units and their gaps, as far as the host has room.
std::vector<Trip> planned_trips(const std::vector<SwapUnit>& units,
                                const std::vector<std::pair<size_t, Gap>>& chosen,
                                const SwapCosts& times, int64_t target, int64_t host_room,
                                bool below = false);

}  // namespace pal
