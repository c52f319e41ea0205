// First fit: buffers in a given order, each at the lowest offset that is free for all of its life.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "memory/place/place.h"

namespace pal {

inline bool is_empty(const Buffer& b) { return b.lower >= b.upper || b.size <= 0; }

// For many orders of the same buffers, which must outlive this.
class FirstFit {
 public:
  explicit FirstFit(std::span<const Buffer> buffers);

  // Places the buffers of `order` around those that are `frozen` (offsets by buffer, -1: not
  // frozen; none when empty). Gives up, with a height of INT64_MAX, at the first buffer that would
  // end at or above `stop_at`: culprit() is its place in the order. Likewise past the deadline.
  Placement run(std::span<const int32_t> order, int64_t stop_at = INT64_MAX,
                std::span<const int64_t> frozen = {},
                const std::optional<std::chrono::steady_clock::time_point>& deadline = {});
  size_t culprit() const { return culprit_; }

 private:
  std::span<const Buffer> buffers_;
  std::vector<int32_t> lower_, upper_;  // times as ranks
  size_t culprit_ = 0;
};

// As first fit in order of the beginnings, but in one sweep over time: for very many buffers.
Placement place_by_start(std::span<const Buffer> buffers);

}  // namespace pal
