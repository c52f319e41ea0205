// Which of several calls that do the same work is done soonest, by the device's own clock; and what
// to try them with.
#pragma once
#include <cstddef>
#include <functional>
#include <optional>

#include "core/accelerator.h"

namespace pal {

// Its index, of 0 to count - 1. `call(i)` queues one call on the compute queue; one that throws
// DeviceError is left out. Of those that are about as fast the first, so that noise decides little;
// nothing where all are left out. What this process has given the device before is waited for.
std::optional<size_t> fastest_call(Accelerator& device, size_t count,
                                   const std::function<void(size_t)>& call);

// Operands: numbers of either sign, from 0.5 to 2, whatever their type: a card's clock depends on
// the bits that change in what it multiplies.
void fill_with_numbers(Accelerator& device, std::byte* to, int64_t bytes);

}  // namespace pal
