// Many buffers as few: those that live at nearly the same time lie side by side in one block, those
// of one size that live one after another share its place.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "memory/place/buffers/buffer.h"

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

// The same buffers as coarser and coarser problems. Where they are many, all are joined from what
// was joined once, which takes a fraction of the time.
class CoarserProblems {
 public:
  // `most` as of join_buffers. The buffers must outlive this.
  CoarserProblems(std::span<const Buffer> buffers, int64_t most) : buffers_(buffers), most_(most) {}

  // Whether there is one more of at most `blocks` blocks, which joined() then is: on a coarser grid
  // than the last, and another problem.
  bool next(size_t blocks);
  const JoinedBuffers& joined() const { return joined_; }
  // About how many nodes of a search would have taken as long as next(), since this was last asked:
  // one for each eight buffers, each time they were joined.
  int64_t take_work() { return std::exchange(work_, 0); }

 private:
  bool join_finely(size_t blocks);
  bool join_to(std::span<const Buffer> from, size_t blocks, JoinedBuffers& out);

  std::span<const Buffer> buffers_;
  int64_t most_, work_ = 0;
  double grid_ = 0;  // of the last
  bool begun_ = false;
  JoinedBuffers fine_;  // what the others are joined from
  JoinedBuffers joined_;
};

}  // namespace pal
