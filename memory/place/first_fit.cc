// First fit over a shelf of what was placed, and in one sweep over time.
#include "memory/place/first_fit.h"

#include <algorithm>
#include <array>
#include <memory>

#include "memory/place/buffers/gaps.h"
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
      if (block->placed[0].offset >= top + size) return top;
      if (block->last_upper <= lower || block->first_lower >= upper) continue;
      for (const Placed& p : *block) {
        if (p.lower >= upper || p.upper <= lower) continue;
        if (p.offset - top >= size) return top;
        top = std::max(top, p.end);
      }
    }
    return top;
  }

  void insert(const Placed& p) {
    const auto is_below = [&](const auto& b) { return b->placed[0].offset <= p.offset; };
    auto at = std::partition_point(blocks_.begin(), blocks_.end(), is_below);
    if (at != blocks_.begin()) --at;
    if (at == blocks_.end()) at = blocks_.insert(at, std::make_unique<Block>());
    if ((*at)->count == kBlock) {
      const std::array<Placed, kBlock> full = (*at)->placed;
      auto upper_half = std::make_unique<Block>(std::span(full).subspan(kBlock / 2));
      **at = Block(std::span(full).first(kBlock / 2));
      at = blocks_.insert(at + 1, std::move(upper_half));
      if (!is_below(*at)) --at;
    }
    (*at)->insert(p);
  }

 private:
  static constexpr size_t kBlock = 128;
  struct Block {
    size_t count = 0;
    int32_t first_lower = INT32_MAX, last_upper = INT32_MIN;
    std::array<Placed, kBlock> placed;

    Block() = default;
    explicit Block(std::span<const Placed> from) {
      for (const Placed& p : from) insert(p);
    }
    const Placed* begin() const { return placed.data(); }
    const Placed* end() const { return placed.data() + count; }
    void insert(const Placed& p) {  // there is room
      Placed* const last = placed.data() + count++;
      Placed* const at = std::upper_bound(placed.data(), last, p,
                                          [](auto& a, auto& b) { return a.offset < b.offset; });
      std::copy_backward(at, last, last + 1);
      *at = p;
      first_lower = std::min(first_lower, p.lower), last_upper = std::max(last_upper, p.upper);
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

Placement place_by_start(std::span<const Buffer> buffers) {
  std::vector<int32_t> starts = not_empty(buffers), ends = starts;
  std::sort(starts.begin(), starts.end(), [&](int32_t i, int32_t j) {
    const Buffer &a = buffers[i], &b = buffers[j];
    if (a.lower != b.lower) return a.lower < b.lower;
    return a.size != b.size ? a.size > b.size : i < j;
  });
  std::sort(ends.begin(), ends.end(), [&](int32_t i, int32_t j) {
    const Buffer &a = buffers[i], &b = buffers[j];
    return a.upper != b.upper ? a.upper < b.upper : i < j;
  });
  Placement out;
  out.offset.assign(buffers.size(), 0);
  Gaps gaps;
  size_t ended = 0;
  for (int32_t i : starts) {
    const Buffer& b = buffers[i];
    for (; buffers[ends[ended]].upper <= b.lower; ++ended) {
      const int64_t begin = out.offset[ends[ended]];
      gaps.give_back(begin, begin + buffers[ends[ended]].size);
    }
    const int64_t begin = out.offset[i] = gaps.take(b.size);
    out.height = std::max(out.height, begin + b.size);
  }
  return out;
}

}  // namespace pal
