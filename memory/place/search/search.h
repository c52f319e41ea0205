// Placement under a capacity, in turns: exact search from below (place_canonical.h) and over
// skylines (place_skyline.h), and for packings without waste guesses at how they are nested
// (place_blocks.h) and beam searches over columns (place_columns.h) and skylines (place_beam.h).
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "memory/place/place.h"

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
