// Many buffers as few: those that live at nearly the same time lie side by side in one block, those
// of one size that live one after another share its place.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "memory/place.h"

namespace pal {

// A placement of the blocks is one of the buffers, of the same height.
struct JoinedBuffers {
  std::vector<Buffer> blocks;   // times as ranks
  std::vector<int32_t> block;   // by buffer, -1 for an empty one
  std::vector<int64_t> inside;  // by buffer: its offset in the block

  // Of the buffers, from those of the blocks.
  std::vector<int64_t> offsets(std::span<const int64_t> of_blocks) const;
};

// Only what begins within the same `grid` moments, and ends so, is joined, the smallest first, and
// only where the bytes alive, with those that a block holds longer than its buffers need, are at
// most `most`: with that no larger than the lower bound, the blocks have the same.
JoinedBuffers join_buffers(std::span<const Buffer> buffers, int64_t grid, int64_t most);

}  // namespace pal
