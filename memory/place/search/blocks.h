// Blocks: buffers that fit together without a gap, joined into one larger buffer. Exact packings
// are often nested so; found bottom up, blocks leave the search a much smaller problem.
#pragma once
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "memory/place/place.h"

namespace pal {

class Blocks {
 public:
  // Joins stacks [l,m) and [m,u) of equal total size, at most `most` buffers in both, fewest first,
  // ties by chance, until there are none. A guess: the blocks may not fit where the buffers would.
  Blocks(std::span<const Buffer> buffers, int most, std::mt19937_64& random);

  const std::vector<Buffer>& buffers() const { return top_; }  // blocks, and what joined none
  // Offsets of the buffers, from those of buffers().
  std::vector<int64_t> offsets(std::span<const int64_t> of_top) const;

 private:
  struct Block {
    Buffer b;
    std::vector<int32_t> left, right;  // two stacks of blocks; a buffer has none
    bool joined = false;
  };
  bool join_round(int count, std::mt19937_64& random);

  size_t leaves_;
  std::vector<Block> blocks_;
  std::vector<Buffer> top_;
  std::vector<int32_t> top_block_;
};

}  // namespace pal
