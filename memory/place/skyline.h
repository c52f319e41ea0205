// Best fit on a skyline: the lowest flat place is filled first, by the first buffer of an order
// that fits between what stands higher beside it (Burke, Kendall and Whitwell 2004; for memory
// Sekiyama et al. 2018). Orders of first fit say who comes first; here a place chooses among all.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "memory/place/buffers/buffer.h"

namespace pal {

// For many orders of the same buffers.
class Skyline {
 public:
  // None of them empty.
  explicit Skyline(std::span<const Buffer> buffers);

  // `order`: all buffers. Where none fits, the place is filled up to the lower of its neighbours.
  // Each buffer that is looked at takes one of `looks`; gives up, with a height of INT64_MAX, where
  // they do not suffice.
  Placement run(std::span<const int32_t> order, int64_t& looks);

 private:
  int32_t first_left(int32_t place);
  int32_t fitting(int32_t begin, int32_t end, int64_t& looks);

  std::vector<Buffer> buffers_;    // times as ranks
  std::vector<int32_t> by_lower_;  // by their beginning
  std::vector<int32_t>
      begins_at_;              // by time: the first place in by_lower_ that begins there or later
  std::vector<int32_t> rank_;  // by buffer: its place in the order
  std::vector<int32_t>
      next_left_;  // by place in by_lower_: itself, or a later one while it is laid
};

}  // namespace pal
