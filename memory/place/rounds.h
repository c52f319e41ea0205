// Rounds on a skyline: what lies too high in one comes earlier in the next ("squeaky wheel"
// optimization, Joslin and Clements 1999).
#pragma once
#include <cstdint>
#include <span>

#include "memory/place/buffers/buffer.h"
#include "memory/place/buffers/deadline.h"

namespace pal {

// Makes the best of at most `rounds` placements `best` if it is lower. None of the buffers is
// empty. Ends at a height of at most `enough` or at the bound, past the deadline, and where a round
// would take long.
void try_rounds(std::span<const Buffer> buffers, int64_t enough, int rounds,
                const Deadline& deadline, Placement& best);

}  // namespace pal
