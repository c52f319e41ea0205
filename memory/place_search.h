// Exact placement under a capacity: depth-first search over skylines (Moffitt, MiniMalloc, 2023, for
// sections, their inference, canonical solutions and decomposition; the branching here is by valley).
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "memory/place.h"

namespace pal {

struct SearchLimits {
  int64_t nodes = INT64_MAX;  // a node that spans many sections counts as several
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

struct SearchResult {
  enum Answer { kFound, kInfeasible, kGaveUp } answer = kGaveUp;
  std::vector<int64_t> offset;  // by buffer, when found
  int64_t nodes = 0;            // that were visited
};

// Offsets for all buffers within `capacity`, or that there are none, or that the limits were met.
// Deterministic when there is no deadline. Meant for at most a few thousand buffers.
SearchResult search_placement(std::span<const Buffer> buffers, int64_t capacity,
                              const SearchLimits& limits);

}  // namespace pal
