// How many bytes are alive when, and whether buffers that are alive together overlap.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "memory/place/buffers/buffer.h"

namespace pal {

// The most bytes alive at once: no placement is lower.
int64_t lower_bound_of(std::span<const Buffer> buffers);

// The first time at which most bytes are alive.
int64_t hottest_moment(std::span<const Buffer> buffers);

// The buffers alive at some time when at least `load` bytes are.
std::vector<int32_t> alive_above(std::span<const Buffer> buffers, int64_t load);

// Where nothing is alive time falls apart: the buffers of each stretch.
std::vector<std::vector<int32_t>> stretches_of(std::span<const Buffer> buffers);

// Whether the same bytes are alive at all times between the first and the last, `capacity` of them.
bool fills(std::span<const Buffer> buffers, int64_t capacity);

// The times at which a buffer begins or ends, in order, each once.
std::vector<int64_t> times_of(std::span<const Buffer> buffers);

// The same buffers with times as ranks among times_of().
std::vector<Buffer> with_ranks(std::span<const Buffer> buffers);

// Throws ProgramError when two buffers that are alive together overlap.
void check_placement(std::span<const Buffer> buffers, std::span<const int64_t> offset);

}  // namespace pal
