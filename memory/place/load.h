// How many bytes are alive when.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "memory/place/place.h"

namespace pal {

// The first time at which most bytes are alive.
int64_t hottest_moment(std::span<const Buffer> buffers);

// The buffers alive at some time when at least `load` bytes are.
std::vector<int32_t> alive_above(std::span<const Buffer> buffers, int64_t load);

// Where nothing is alive time falls apart: the buffers of each stretch.
std::vector<std::vector<int32_t>> stretches_of(std::span<const Buffer> buffers);

}  // namespace pal
