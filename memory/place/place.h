// Offsets for lifetimes: dynamic storage allocation, with nothing known but when and how much
// (OLLA, section 4; minimalloc). Pure: no program here, so that any problem can be placed.
#pragma once
#include <cstdint>
#include <span>

#include "memory/place/buffers/buffer.h"
#include "memory/place/buffers/deadline.h"
#include "memory/place/buffers/load.h"

namespace pal {

// How hard to look for one.
struct PlaceEffort {
  // On a skyline, after the greedy orders: a millisecond each for a thousand buffers.
  int rounds = 64;
  // Of the search after these. The default is three seconds at most or so, and does not
  // depend on the machine: a plan is the same on every one.
  int64_t nodes = 300'000;
  double slack = 0;  // so large a part above the bytes alive is good enough
  // Where no height is asked for: a node for each so many bytes that there are to win, at most, so
  // that kilobytes are not searched for as gigabytes are. 0: `nodes`, whatever there is to win.
  int64_t bytes_a_node = 0;
};

struct PlaceOptions {
  int64_t enough = 0;  // bytes: stop at the first placement of at most this height
  PlaceEffort effort = {};
  Deadline deadline = {};  // none: deterministic
};

// Anytime placement. Stretches of time that share no buffer are placed on their own (stretch.h),
// each by the best of a portfolio of first-fit orders (orders.h), and while that is above the lower
// bound by rounds on a skyline (rounds.h), then by search under a capacity: of everything when it
// is small, else of the buffers of the hottest moments, around which the others are then laid
// first-fit; and of ever coarser problems, in which buffers of nearly the same life are one
// (join.h).
Placement place(std::span<const Buffer> buffers, const PlaceOptions& options = {});

}  // namespace pal
