// Segments, their blocks in order of address, and the free ones in order of size.
#include "memory/price/caching_allocator.h"

#include <algorithm>
#include <iterator>
#include <list>
#include <numeric>
#include <set>
#include <tuple>
#include <vector>

namespace pal {
namespace {

constexpr int64_t kMiB = 1 << 20, kRound = 512, kSmallRequest = kMiB, kSmallSegment = 2 * kMiB,
                  kLargeSegment = 20 * kMiB, kOwnSegment = 10 * kMiB, kOwnRound = 2 * kMiB;

int64_t round_up(int64_t size, int64_t to) { return (size + to - 1) / to * to; }

struct Block {
  int64_t size;
  int64_t address;  // segments follow each other in the order in which they were reserved
  int segment;
  bool small;
  bool free;
};
using BlockList = std::list<Block>;

struct SmallestFirst {
  bool operator()(BlockList::iterator a, BlockList::iterator b) const {
    return std::tie(a->size, a->address) < std::tie(b->size, b->address);
  }
};

class Allocator {
 public:
  BlockList::iterator allocate(int64_t bytes) {
    const int64_t size = std::max(kRound, round_up(bytes, kRound));
    const bool small = size <= kSmallRequest;
    auto& pool = free_[small];
    BlockList wanted{{size, -1, -1, small, true}};
    auto found = pool.lower_bound(wanted.begin());
    if (found == pool.end()) found = pool.insert(reserve(size, small)).first;
    const BlockList::iterator block = *found;
    pool.erase(found);
    const int64_t rest = block->size - size;
    if (small ? rest >= kRound : rest > kSmallRequest) {
      const auto next = blocks_.insert(std::next(block),
                                       {rest, block->address + size, block->segment, small, true});
      pool.insert(next);
      block->size = size;
    }
    block->free = false;
    return block;
  }

  void free(BlockList::iterator block) {
    block->free = true;
    auto& pool = free_[block->small];
    auto join = [&](BlockList::iterator with) {
      if (with == blocks_.end() || !with->free || with->segment != block->segment) return;
      pool.erase(with);
      block->address = std::min(block->address, with->address);
      block->size += with->size;
      blocks_.erase(with);
    };
    join(std::next(block));
    if (block != blocks_.begin()) join(std::prev(block));
    pool.insert(block);
  }

  int64_t reserved() const { return reserved_; }

 private:
  BlockList::iterator reserve(int64_t size, bool small) {
    const int64_t segment = small                ? kSmallSegment
                            : size < kOwnSegment ? kLargeSegment
                                                 : round_up(size, kOwnRound);
    blocks_.push_back({segment, reserved_, segments_++, small, true});
    reserved_ += segment;
    return std::prev(blocks_.end());
  }

  BlockList blocks_;
  std::set<BlockList::iterator, SmallestFirst> free_[2];
  int64_t reserved_ = 0;
  int segments_ = 0;
};

}  // namespace

CachingAllocation caching_allocation(std::span<const Buffer> buffers) {
  Allocator allocator;
  std::vector<BlockList::iterator> block(buffers.size());
  CachingAllocation out;
  int64_t alive = 0;
  for (const Event& event : events_of(buffers)) {
    if (!event.starts) {
      allocator.free(block[event.buffer]);
      alive -= buffers[event.buffer].size;
      continue;
    }
    block[event.buffer] = allocator.allocate(buffers[event.buffer].size);
    alive += buffers[event.buffer].size;
    out.allocated = std::max(out.allocated, alive);
    if (allocator.reserved() > out.reserved) {
      out.reserved = allocator.reserved();
      out.allocated_at_peak = alive;
    }
  }
  return out;
}

}  // namespace pal
