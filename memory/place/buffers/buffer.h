// What is placed, and where it is placed.
#pragma once
#include <cstdint>
#include <vector>

namespace pal {

struct Buffer {
  int64_t lower = 0, upper = 0;  // alive in [lower, upper); never, when empty
  int64_t size = 0;  // bytes; offsets are sums of sizes, so align sizes to align offsets
  bool operator==(const Buffer&) const = default;
};

// Such a buffer takes no bytes at any time.
inline bool is_empty(const Buffer& b) { return b.lower >= b.upper || b.size <= 0; }

struct Placement {
  std::vector<int64_t> offset;  // by buffer
  int64_t height = 0;           // the largest offset + size
  int64_t lower_bound = 0;      // most bytes alive at once
  int64_t proven = 0;           // no placement is lower: the lower bound, or more after a search
  const char* order = "";       // the order that won
  bool optimal() const { return height <= proven; }
};

}  // namespace pal
