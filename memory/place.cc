// Greedy placement: a portfolio of first-fit orders over one structure.
#include "memory/place.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string>

#include "core/error.h"

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
    int i = int(std::upper_bound(block.offset, block.offset + block.count, p.offset) - block.offset);
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

bool is_empty(const Buffer& b) { return b.lower >= b.upper || b.size <= 0; }

struct Edge {
  int64_t time, bytes;
};
// Ends before beginnings at the same time.
std::vector<Edge> edges_of(std::span<const Buffer> buffers) {
  std::vector<Edge> edges;
  edges.reserve(2 * buffers.size());
  for (const Buffer& b : buffers) {
    if (is_empty(b)) continue;
    edges.push_back({b.lower, b.size});
    edges.push_back({b.upper, -b.size});
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return a.time != b.time ? a.time < b.time : a.bytes < b.bytes;
  });
  return edges;
}

}  // namespace

int64_t lower_bound_of(std::span<const Buffer> buffers) {
  int64_t live = 0, most = 0;
  for (const Edge& e : edges_of(buffers)) most = std::max(most, live += e.bytes);
  return most;
}

Placement first_fit(std::span<const Buffer> buffers, std::span<const int32_t> order,
                    int64_t stop_at) {
  std::vector<int64_t> times;
  for (const Buffer& b : buffers) times.push_back(b.lower), times.push_back(b.upper);
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  auto rank = [&](int64_t time) {
    return int32_t(std::lower_bound(times.begin(), times.end(), time) - times.begin());
  };
  Placement out;
  out.offset.assign(buffers.size(), 0);
  Shelf shelf;
  for (int32_t i : order) {
    const Buffer& b = buffers[size_t(i)];
    if (is_empty(b)) continue;
    const int32_t lower = rank(b.lower), upper = rank(b.upper);
    const int64_t at = shelf.find(lower, upper, b.size);
    out.offset[size_t(i)] = at;
    out.height = std::max(out.height, at + b.size);
    if (out.height >= stop_at) {
      out.height = INT64_MAX;
      return out;
    }
    shelf.insert({at, at + b.size, lower, upper});
  }
  return out;
}

Placement place(std::span<const Buffer> buffers) {
  const int64_t bound = lower_bound_of(buffers);
  std::vector<int32_t> order(buffers.size());
  Placement best;
  best.height = INT64_MAX;
  // Each order is a key, largest first; ties by size, then duration, then start, then number.
  auto duration = [](const Buffer& b) { return b.upper - b.lower; };
  auto attempt = [&](const char* name, auto key) {
    if (best.height == bound) return;
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int32_t i, int32_t j) {
      const Buffer &a = buffers[size_t(i)], &b = buffers[size_t(j)];
      const double ka = key(a), kb = key(b);
      if (ka != kb) return ka > kb;
      if (a.size != b.size) return a.size > b.size;
      if (duration(a) != duration(b)) return duration(a) > duration(b);
      return a.lower != b.lower ? a.lower < b.lower : i < j;
    });
    Placement p = first_fit(buffers, order, best.height);
    if (p.height < best.height) best = std::move(p), best.order = name;
  };
  attempt("size", [](const Buffer& b) { return double(b.size); });
  attempt("area", [&](const Buffer& b) { return double(b.size) * double(duration(b)); });
  attempt("start", [](const Buffer& b) { return -double(b.lower); });
  attempt("duration", [&](const Buffer& b) { return double(duration(b)); });
  attempt("end", [](const Buffer& b) { return double(b.upper); });
  best.lower_bound = bound;
  return best;
}

void check_placement(std::span<const Buffer> buffers, std::span<const int64_t> offset) {
  std::vector<int32_t> starts, ends;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!is_empty(buffers[i])) starts.push_back(int32_t(i));
  }
  ends = starts;
  auto by = [&](auto member) {
    return [&buffers, member](int32_t a, int32_t b) {
      return buffers[size_t(a)].*member < buffers[size_t(b)].*member;
    };
  };
  std::sort(starts.begin(), starts.end(), by(&Buffer::lower));
  std::sort(ends.begin(), ends.end(), by(&Buffer::upper));
  std::set<std::pair<int64_t, int32_t>> live;  // (offset, buffer): neighbours must not touch
  size_t ended = 0;
  for (int32_t i : starts) {
    for (; buffers[size_t(ends[ended])].upper <= buffers[size_t(i)].lower; ++ended) {
      live.erase({offset[size_t(ends[ended])], ends[ended]});
    }
    const int64_t begin = offset[size_t(i)], end = begin + buffers[size_t(i)].size;
    auto next = live.lower_bound({begin, 0});
    int32_t clash = -1;
    if (next != live.end() && next->first < end) clash = next->second;
    if (next != live.begin()) {
      auto before = std::prev(next);
      if (before->first + buffers[size_t(before->second)].size > begin) clash = before->second;
    }
    if (clash >= 0 || begin < 0) {
      throw ProgramError("place: buffer " + std::to_string(i) + " at " + std::to_string(begin) +
                         (clash < 0 ? " is below 0" : " overlaps buffer " + std::to_string(clash)));
    }
    live.insert({begin, i});
  }
}

}  // namespace pal
