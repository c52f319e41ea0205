// Placement under a capacity: canonical placements (canonical.h) in several orders, and beside
// them, for packings without waste, guesses over columns (columns.h).
#pragma once
#include <span>

#include "memory/place/buffers/buffer.h"
#include "memory/place/search/limits.h"

namespace pal {

// Offsets for all buffers within `capacity`, or that there are none, or that the limits were met.
// Deterministic when there is no deadline. Meant for at most a few thousand buffers.
SearchResult search_placement(std::span<const Buffer> buffers, int64_t capacity,
                              const SearchLimits& limits);

}  // namespace pal
