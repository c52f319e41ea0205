// Gaps by address, and by size within a factor of two.
#include "memory/place/buffers/gaps.h"

#include <bit>

namespace pal {
namespace {

size_t class_of(int64_t size) { return size_t(std::bit_width(uint64_t(size)) - 1); }

}  // namespace

Gaps::Gaps(int64_t begin, int64_t end) {
  if (begin < end) add(begin, end);
}

int64_t Gaps::take(int64_t size) {
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
  if (best == end_.end()) return -1;
  const auto [begin, end] = *best;
  remove(best);
  if (begin + size < end) add(begin + size, end);
  return begin;
}

// Joined with its neighbours.
void Gaps::give_back(int64_t begin, int64_t end) {
  const auto after = end_.lower_bound(begin);
  const auto before = after == end_.begin() ? end_.end() : std::prev(after);
  if (after != end_.end() && after->first == end) {
    end = after->second;
    remove(after);
  }
  if (before != end_.end() && before->second == begin) {
    begin = before->first;
    remove(before);
  }
  add(begin, end);
}

void Gaps::add(int64_t begin, int64_t end) {
  end_.emplace(begin, end);
  by_class_[class_of(end - begin)].insert(begin);
}

void Gaps::remove(Map::iterator gap) {
  by_class_[class_of(gap->second - gap->first)].erase(gap->first);
  end_.erase(gap);
}

}  // namespace pal
