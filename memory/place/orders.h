// A portfolio of first-fit orders: size, area, duration, start, end, and a stack of what is alive
// at the hottest moment before the rest.
#pragma once
#include <cstdint>
#include <span>

#include "memory/place/buffers/buffer.h"
#include "memory/place/buffers/deadline.h"

namespace pal {

// Tries every order of the buffers that `frozen` (may be empty) leaves to place, and makes the best
// of them `best` if it is lower. Ends at a height of at most `enough`, or past the deadline once
// there is a placement.
void try_orders(std::span<const Buffer> buffers, int64_t enough, std::span<const int64_t> frozen,
                const Deadline& deadline, Placement& best);

}  // namespace pal
