// First fit over one structure, whatever the order.
#include "memory/place/first_fit.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <set>

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

namespace {

// What is free at a moment: by address, and by size within a factor of two.
class Gaps {
 public:
  Gaps() { add(0, INT64_MAX); }

  // The lowest that is large enough gives its lower part.
  int64_t take(int64_t size) {
    const size_t own = class_of(size);
    auto best = end_.end();
    for (size_t c = own + 1; c < kClasses; ++c) {
      if (!by_class_[c].empty() && (best == end_.end() || *by_class_[c].begin() < best->first))
        best = end_.find(*by_class_[c].begin());
    }
    for (const int64_t begin : by_class_[own]) {
      if (best != end_.end() && begin > best->first) break;
      const auto gap = end_.find(begin);
      if (gap->second - begin < size) continue;
      best = gap;
      break;
    }
    const auto [begin, end] = *best;
    remove(best);
    if (begin + size < end) add(begin + size, end);
    return begin;
  }

  void give_back(int64_t begin, int64_t end) {
    const auto after = end_.lower_bound(begin);
    const auto before = after == end_.begin() ? end_.end() : std::prev(after);
    if (after->first == end) {
      end = after->second;
      remove(after);
    }
    if (before != end_.end() && before->second == begin) {
      begin = before->first;
      remove(before);
    }
    add(begin, end);
  }

 private:
  using Map = std::map<int64_t, int64_t>;
  static constexpr size_t kClasses = 64;

  static size_t class_of(int64_t size) { return size_t(std::bit_width(uint64_t(size)) - 1); }
  void add(int64_t begin, int64_t end) {
    end_.emplace(begin, end);
    by_class_[class_of(end - begin)].insert(begin);
  }
  void remove(Map::iterator gap) {
    by_class_[class_of(gap->second - gap->first)].erase(gap->first);
    end_.erase(gap);
  }

  Map end_;                                           // by begin; the last ends at INT64_MAX
  std::array<std::set<int64_t>, kClasses> by_class_;  // where gaps begin
};

}  // namespace

FirstFit::FirstFit(std::span<const Buffer> buffers) : buffers_(buffers) {
  std::vector<int64_t> times;
  times.reserve(2 * buffers.size());
  for (const Buffer& b : buffers) times.push_back(b.lower), times.push_back(b.upper);
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  auto rank = [&](int64_t time) {
    return int32_t(std::lower_bound(times.begin(), times.end(), time) - times.begin());
  };
  for (const Buffer& b : buffers) {
    lower_.push_back(rank(b.lower));
    upper_.push_back(rank(b.upper));
  }
}

Placement FirstFit::run(std::span<const int32_t> order, int64_t stop_at,
                        std::span<const int64_t> frozen,
                        const std::optional<std::chrono::steady_clock::time_point>& deadline) {
  Placement out;
  out.offset.assign(buffers_.size(), 0);
  Shelf shelf;
  auto put = [&](size_t i, int64_t at) {
    out.offset[i] = at;
    out.height = std::max(out.height, at + buffers_[i].size);
    shelf.insert({at, at + buffers_[i].size, lower_[i], upper_[i]});
  };
  for (size_t i = 0; i < frozen.size(); ++i) {
    if (frozen[i] >= 0 && !is_empty(buffers_[i])) put(i, frozen[i]);
  }
  for (size_t k = 0; k < order.size(); ++k) {
    const size_t i = size_t(order[k]);
    if (is_empty(buffers_[i])) continue;
    const int64_t at = shelf.find(lower_[i], upper_[i], buffers_[i].size);
    const bool late = deadline && (k & 255) == 255 && std::chrono::steady_clock::now() >= *deadline;
    if (late || std::max(out.height, at + buffers_[i].size) >= stop_at) {
      culprit_ = k;
      out.height = INT64_MAX;
      return out;
    }
    put(i, at);
  }
  return out;
}

Placement place_by_start(std::span<const Buffer> buffers) {
  std::vector<int32_t> starts, ends;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!is_empty(buffers[i])) starts.push_back(int32_t(i));
  }
  ends = starts;
  std::sort(starts.begin(), starts.end(), [&](int32_t i, int32_t j) {
    const Buffer &a = buffers[size_t(i)], &b = buffers[size_t(j)];
    if (a.lower != b.lower) return a.lower < b.lower;
    return a.size != b.size ? a.size > b.size : i < j;
  });
  std::sort(ends.begin(), ends.end(), [&](int32_t i, int32_t j) {
    const Buffer &a = buffers[size_t(i)], &b = buffers[size_t(j)];
    return a.upper != b.upper ? a.upper < b.upper : i < j;
  });
  Placement out;
  out.offset.assign(buffers.size(), 0);
  Gaps gaps;
  size_t ended = 0;
  for (int32_t i : starts) {
    const Buffer& b = buffers[size_t(i)];
    for (; buffers[size_t(ends[ended])].upper <= b.lower; ++ended) {
      const int64_t begin = out.offset[size_t(ends[ended])];
      gaps.give_back(begin, begin + buffers[size_t(ends[ended])].size);
    }
    const int64_t begin = out.offset[size_t(i)] = gaps.take(b.size);
    out.height = std::max(out.height, begin + b.size);
  }
  return out;
}

Placement first_fit(std::span<const Buffer> buffers, std::span<const int32_t> order,
                    int64_t stop_at, std::span<const int64_t> frozen) {
  return FirstFit(buffers).run(order, stop_at, frozen);
}

}  // namespace pal
