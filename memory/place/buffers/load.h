// How many bytes are alive when, and whether buffers that are alive together overlap.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "memory/place/buffers/buffer.h"

namespace pal {

// A buffer begins or ends.
struct Event {
  int64_t time;
  bool starts;
  int32_t buffer;
};
// The numbers of buffers that are not empty, in order.
std::vector<int32_t> not_empty(std::span<const Buffer> buffers);
// Of buffers that are not empty, in order of time; at one time what ends comes first, then by
// number.
std::vector<Event> events_of(std::span<const Buffer> buffers);

// The first time at which most bytes are alive, and how many.
struct HottestMoment {
  int64_t time = 0, bytes = 0;
};
HottestMoment hottest_moment(std::span<const Buffer> buffers);
// Those bytes: no placement is lower.
inline int64_t lower_bound_of(std::span<const Buffer> buffers) {
  return hottest_moment(buffers).bytes;
}

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

// Two buffers that are alive together and overlap, the second of which begins later, or at the same
// time; nothing where there are none.
struct Overlap {
  int32_t first, second;
};
std::optional<Overlap> overlap_of(std::span<const Buffer> buffers, std::span<const int64_t> offset);

// Throws ProgramError when there are, or when one lies below 0.
void check_placement(std::span<const Buffer> buffers, std::span<const int64_t> offset);

}  // namespace pal
