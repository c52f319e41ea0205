// First fit: buffers in a given order, each at the lowest offset that is free for all of its life.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "memory/place/buffers/buffer.h"
#include "memory/place/buffers/deadline.h"

namespace pal {

// For many orders of the same buffers.
class FirstFit {
 public:
  explicit FirstFit(std::span<const Buffer> buffers);

  // Places the buffers of `order` around those that are `frozen` (offsets by buffer, -1: not
  // frozen; none when empty). Gives up, with a height of INT64_MAX, at the first buffer that would
  // end at or above `stop_at`, and past the deadline.
  Placement run(std::span<const int32_t> order, int64_t stop_at = INT64_MAX,
                std::span<const int64_t> frozen = {}, const Deadline& deadline = {});

 private:
  std::vector<Buffer> buffers_;  // times as ranks
};

// One order.
Placement first_fit(std::span<const Buffer> buffers, std::span<const int32_t> order,
                    int64_t stop_at = INT64_MAX, std::span<const int64_t> frozen = {});

// In order of the beginnings, in one sweep over time: for very many buffers. Of those that begin
// together the largest comes first.
Placement place_by_start(std::span<const Buffer> buffers);

}  // namespace pal
