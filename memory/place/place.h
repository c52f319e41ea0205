// Offsets for lifetimes: dynamic storage allocation, with nothing known but when and how much
// (OLLA, section 4; minimalloc). Pure: no program here, so that any problem can be placed.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace pal {

struct Buffer {
  int64_t lower = 0, upper = 0;  // alive in [lower, upper); never, when empty
  int64_t size = 0;  // bytes; offsets are sums of sizes, so align sizes to align offsets
  bool operator==(const Buffer&) const = default;
};

struct Placement {
  std::vector<int64_t> offset;  // by buffer
  int64_t height = 0;           // the largest offset + size
  int64_t lower_bound = 0;      // most bytes alive at once
  int64_t proven = 0;           // no placement is lower: the lower bound, or more after a search
  const char* order = "";       // the order that won
  bool optimal() const { return height <= proven; }
};

// The most bytes alive at once: no placement is lower.
int64_t lower_bound_of(std::span<const Buffer> buffers);

struct PlaceOptions {
  int64_t enough = 0;  // bytes: stop at the first placement of at most this height
  // Of the search after the greedy orders. The default is three seconds at most or so, and does not
  // depend on the machine: a plan is the same on every one.
  int64_t nodes = 300'000;
  std::optional<std::chrono::steady_clock::time_point> deadline;  // none: deterministic
};

// Anytime placement. Stretches of time that share no buffer are placed on their own, each by the
// best of a portfolio of first-fit orders (size, area, duration, start, end, and a stack of what is
// alive at the hottest moment before the rest), and while that is above the lower bound by local
// search over orders (place_improve.h) and by search under a capacity (place_search.h): of
// everything when it is small, else of the buffers of the hottest sections, around which the others
// are then laid first-fit; and of ever coarser problems, in which buffers of nearly the same life
// are one (place_join.h).
Placement place(std::span<const Buffer> buffers, const PlaceOptions& options = {});

// First fit in the order given: each buffer at the lowest offset free for all of its life.
// `stop_at`: gives up (height INT64_MAX) as soon as the height is no lower than this. `frozen`, if
// given: offsets of the buffers that are placed already and not in `order`; -1 for the others.
Placement first_fit(std::span<const Buffer> buffers, std::span<const int32_t> order,
                    int64_t stop_at = INT64_MAX, std::span<const int64_t> frozen = {});

// Throws ProgramError when two buffers that are alive together overlap.
void check_placement(std::span<const Buffer> buffers, std::span<const int64_t> offset);

}  // namespace pal
