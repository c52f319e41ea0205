// The sweep over time, and what is free at each moment.
#include "memory/place/buffers/by_start.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <set>

namespace pal {
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

Placement place_by_start(std::span<const Buffer> buffers) {
  std::vector<int32_t> starts, ends;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!is_empty(buffers[i])) starts.push_back(int32_t(i));
  }
  ends = starts;
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
