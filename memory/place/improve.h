// Local search over first-fit orders: who sticks out goes earlier (squeaky wheel optimization,
// Joslin and Clements, 1999).
#pragma once
#include <cstdint>
#include <span>

#include "memory/place/place.h"
#include "memory/place/search/search.h"

namespace pal {

// Lowers `best`, a placement of the buffers, until it is at most `enough` high or the limits are
// met. Returns the nodes used; a try costs one for every buffer placed.
int64_t improve_order(std::span<const Buffer> buffers, int64_t enough, const SearchLimits& limits,
                      Placement& best);

}  // namespace pal
