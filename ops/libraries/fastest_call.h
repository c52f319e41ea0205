// Which of several calls that do the same work is done soonest, by the device's own clock.
#pragma once
#include <cstddef>
#include <functional>

#include "core/accelerator.h"

namespace pal {

// Its index, of 0 to count - 1. `call(i)` queues one call on the compute queue; one that throws
// DeviceError is left out. Of those that are about as fast the first, so that noise decides little;
// 0 where all are left out. Whatever the device was given before is waited for.
size_t fastest_call(Accelerator& device, size_t count, const std::function<void(size_t)>& call);

}  // namespace pal
