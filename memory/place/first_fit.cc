// First fit over one structure, whatever the order.
#include "memory/place/first_fit.h"

#include <algorithm>
#include <memory>

#include "memory/place/buffers/load.h"

namespace pal {
namespace {

struct Placed {
  int64_t offset, end;   // bytes
  int32_t lower, upper;  // time, as ranks
};

// What was placed, by offset: a list of short sorted blocks, each with the span of time it covers,
// so that a block that is over before, or begins after, is skipped whole.
class Shelf {
 public:
  // The lowest offset at which `size` bytes are free during [lower, upper).
  int64_t find(int32_t lower, int32_t upper, int64_t size) const {
    int64_t top = 0;  // of what lies below and lives at the same time
    for (const auto& block : blocks_) {
      if (block->offset[0] >= top + size) return top;
      if (block->last_upper <= lower || block->first_lower >= upper) continue;
      for (int i = 0; i < block->count; ++i) {
        if (block->lower[i] >= upper || block->upper[i] <= lower) continue;
        if (block->offset[i] - top >= size) return top;
        top = std::max(top, block->end[i]);
      }
    }
    return top;
  }

  void insert(const Placed& p) {
    size_t at = size_t(std::partition_point(blocks_.begin(), blocks_.end(),
                                            [&](auto& b) { return b->offset[0] <= p.offset; }) -
                       blocks_.begin());
    if (at > 0) --at;
    if (blocks_.empty()) blocks_.push_back(std::make_unique<Block>());
    if (blocks_[at]->count == kBlock) {
      auto upper_half = std::make_unique<Block>();
      Block& full = *blocks_[at];
      for (int i = kBlock / 2; i < kBlock; ++i) upper_half->push(full.get(i), i - kBlock / 2);
      full.count = kBlock / 2;
      full.refresh();
      blocks_.insert(blocks_.begin() + long(at) + 1, std::move(upper_half));
      if (blocks_[at + 1]->offset[0] <= p.offset) ++at;
    }
    Block& block = *blocks_[at];
    int i =
        int(std::upper_bound(block.offset, block.offset + block.count, p.offset) - block.offset);
    for (int j = block.count; j > i; --j) block.set(block.get(j - 1), j);
    block.push(p, i);
  }

 private:
  static constexpr int kBlock = 128;
  struct Block {
    int count = 0;
    int32_t first_lower = INT32_MAX, last_upper = INT32_MIN;
    int64_t offset[kBlock], end[kBlock];
    int32_t lower[kBlock], upper[kBlock];

    Placed get(int i) const { return {offset[i], end[i], lower[i], upper[i]}; }
    void set(const Placed& p, int i) {
      offset[i] = p.offset, end[i] = p.end, lower[i] = p.lower, upper[i] = p.upper;
    }
    void push(const Placed& p, int i) {  // the rest has made room
      set(p, i);
      ++count;
      first_lower = std::min(first_lower, p.lower), last_upper = std::max(last_upper, p.upper);
    }
    void refresh() {
      first_lower = *std::min_element(lower, lower + count);
      last_upper = *std::max_element(upper, upper + count);
    }
  };
  std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace

FirstFit::FirstFit(std::span<const Buffer> buffers) : buffers_(with_ranks(buffers)) {}

Placement FirstFit::run(std::span<const int32_t> order, int64_t stop_at,
                        std::span<const int64_t> frozen, const Deadline& deadline) {
  Placement out;
  out.offset.assign(buffers_.size(), 0);
  Shelf shelf;
  auto put = [&](size_t i, int64_t at) {
    out.offset[i] = at;
    out.height = std::max(out.height, at + buffers_[i].size);
    const Buffer& b = buffers_[i];
    shelf.insert({at, at + b.size, int32_t(b.lower), int32_t(b.upper)});
  };
  for (size_t i = 0; i < frozen.size(); ++i) {
    if (frozen[i] >= 0 && !is_empty(buffers_[i])) put(i, frozen[i]);
  }
  for (size_t k = 0; k < order.size(); ++k) {
    const size_t i = size_t(order[k]);
    const Buffer& b = buffers_[i];
    if (is_empty(b)) continue;
    const int64_t at = shelf.find(int32_t(b.lower), int32_t(b.upper), b.size);
    const bool late = (k & 255) == 255 && is_past(deadline);
    if (late || std::max(out.height, at + b.size) >= stop_at) {
      culprit_ = k;
      out.height = INT64_MAX;
      return out;
    }
    put(i, at);
  }
  return out;
}

Placement first_fit(std::span<const Buffer> buffers, std::span<const int32_t> order,
                    int64_t stop_at, std::span<const int64_t> frozen) {
  return FirstFit(buffers).run(order, stop_at, frozen);
}

}  // namespace pal
