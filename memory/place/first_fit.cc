// First fit over a shelf of what was placed, and in one sweep over time.
#include "memory/place/first_fit.h"

#include <algorithm>
#include <array>
#include <bit>
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
// so that a block that is over before, or begins after, is skipped whole. In the others few buffers
// live at the time in question: these are found sixteen at a time.
class Shelf {
 public:
  // The lowest offset at which `size` bytes are free during [lower, upper).
  int64_t find(int32_t lower, int32_t upper, int64_t size) const {
    int64_t top = 0;  // of what lies below and lives at the same time
    for (const auto& block : blocks_) {
      if (block->offset[0] >= top + size) return top;
      if (block->last_upper <= lower || block->first_lower >= upper) continue;
      for (size_t group = 0; group < block->count; group += kTogether) {
        for (uint32_t live = block->live(group, lower, upper); live != 0; live &= live - 1) {
          const size_t k = group + size_t(std::countr_zero(live));
          if (block->offset[k] - top >= size) return top;
          top = std::max(top, block->end[k]);
        }
      }
    }
    return top;
  }

  void insert(const Placed& p) {
    const auto is_below = [&](const auto& b) { return b->offset[0] <= p.offset; };
    auto at = std::partition_point(blocks_.begin(), blocks_.end(), is_below);
    if (at != blocks_.begin()) --at;
    if (at == blocks_.end()) at = blocks_.insert(at, std::make_unique<Block>());
    if ((*at)->count == kBlock) {
      auto upper_half = std::make_unique<Block>();
      (*at)->move_upper_half(*upper_half);
      at = blocks_.insert(at + 1, std::move(upper_half));
      if (!is_below(*at)) --at;
    }
    (*at)->insert(p);
  }

 private:
  static constexpr size_t kBlock = 128, kTogether = 16;
  struct Block {
    size_t count = 0;
    int32_t first_lower = INT32_MAX, last_upper = INT32_MIN;
    // By offset. Where there is nothing, it lives at no time.
    std::array<int32_t, kBlock> lower, upper;
    std::array<int64_t, kBlock> offset, end;

    Block() { lower.fill(INT32_MAX), upper.fill(INT32_MIN); }

    // A bit for each of those from `group` on that live during [from, until).
    uint32_t live(size_t group, int32_t from, int32_t until) const {
      const int32_t *begins = lower.data() + group, *ends = upper.data() + group;
      uint32_t bits = 0;
#pragma omp simd reduction(| : bits)
      for (uint32_t i = 0; i < kTogether; ++i) {
        bits |= uint32_t((begins[i] < until) & (ends[i] > from)) << i;
      }
      return bits;
    }
    void insert(const Placed& p) {  // there is room
      const auto at = size_t(
          std::upper_bound(offset.begin(), offset.begin() + std::ptrdiff_t(count), p.offset) -
          offset.begin());
      insert_at(at, lower, p.lower), insert_at(at, upper, p.upper);
      insert_at(at, offset, p.offset), insert_at(at, end, p.end);
      ++count;
      first_lower = std::min(first_lower, p.lower), last_upper = std::max(last_upper, p.upper);
    }
    void move_upper_half(Block& other) {
      const Block full = *this;
      *this = Block();
      for (size_t k = 0; k < full.count; ++k) {
        (k < kBlock / 2 ? *this : other)
            .insert({full.offset[k], full.end[k], full.lower[k], full.upper[k]});
      }
    }

   private:
    template <class T> void insert_at(size_t at, std::array<T, kBlock>& of, T value) {
      std::copy_backward(of.begin() + std::ptrdiff_t(at), of.begin() + std::ptrdiff_t(count),
                         of.begin() + std::ptrdiff_t(count) + 1);
      of[at] = value;
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
