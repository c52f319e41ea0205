// First fit in order of the beginnings, in one sweep over time: for very many buffers.
#pragma once
#include <span>

#include "memory/place/buffers/buffer.h"

namespace pal {

// Of those that begin together the largest comes first.
Placement place_by_start(std::span<const Buffer> buffers);

}  // namespace pal
