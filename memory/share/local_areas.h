// What lives for a moment only in an area of its job's own within the pool (Zico, Lim et al. 2021,
// sections 6.2 and 6.3): nobody waits for its bytes, and nobody else can have them.
#pragma once
#include "memory/share/circle.h"

namespace pal {

// Whether a buffer may lie in its job's local area: a workspace, or a gradient map. (The paper
// takes all that does not live over the peak, which its framework can tell without roles.)
bool may_be_local(const SharableBuffer& buffer);

// As place_on(), each job's local buffers below all others, one job's behind another's.
PoolPlacement place_with_local(const Circle& circle);

}  // namespace pal
