// Greedy placement, a portfolio of first-fit orders over one structure; what to search after it.
#include "memory/place.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string>

#include "core/error.h"
#include "memory/place_search.h"

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
                    int64_t stop_at, std::span<const int64_t> frozen) {
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
  for (size_t i = 0; i < frozen.size(); ++i) {
    const Buffer& b = buffers[i];
    if (frozen[i] < 0 || is_empty(b)) continue;
    out.offset[i] = frozen[i];
    out.height = std::max(out.height, frozen[i] + b.size);
    shelf.insert({frozen[i], frozen[i] + b.size, rank(b.lower), rank(b.upper)});
  }
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

namespace {

// The best first-fit order of those that `frozen` (may be empty) leaves to place, if one is below
// `best`. Ends at a height of at most `enough`.
void try_orders(std::span<const Buffer> buffers, int64_t enough, std::span<const int64_t> frozen,
                Placement& best) {
  std::vector<int32_t> order;
  // Each order is a key, largest first; ties by size, then duration, then start, then number.
  auto duration = [](const Buffer& b) { return b.upper - b.lower; };
  auto attempt = [&](const char* name, auto key) {
    if (best.height <= enough) return;
    order.clear();
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (frozen.empty() || frozen[i] < 0) order.push_back(int32_t(i));
    }
    std::sort(order.begin(), order.end(), [&](int32_t i, int32_t j) {
      const Buffer &a = buffers[size_t(i)], &b = buffers[size_t(j)];
      const double ka = key(a), kb = key(b);
      if (ka != kb) return ka > kb;
      if (a.size != b.size) return a.size > b.size;
      if (duration(a) != duration(b)) return duration(a) > duration(b);
      return a.lower != b.lower ? a.lower < b.lower : i < j;
    });
    Placement p = first_fit(buffers, order, best.height, frozen);
    if (p.height < best.height) best = std::move(p), best.order = name;
  };
  attempt("size", [](const Buffer& b) { return double(b.size); });
  attempt("area", [&](const Buffer& b) { return double(b.size) * double(duration(b)); });
  attempt("start", [](const Buffer& b) { return -double(b.lower); });
  attempt("duration", [&](const Buffer& b) { return double(duration(b)); });
  attempt("end", [](const Buffer& b) { return double(b.upper); });
}

// The buffers alive when at least `load` bytes are.
std::vector<int32_t> alive_above(std::span<const Buffer> buffers, int64_t load) {
  std::vector<std::pair<int64_t, int64_t>> hot;  // stretches of time, in order
  int64_t live = 0;
  for (const Edge& e : edges_of(buffers)) {
    const bool before = live >= load;
    live += e.bytes;
    if (!before && live >= load) hot.push_back({e.time, e.time});
    if (before) hot.back().second = e.time;
  }
  std::vector<int32_t> out;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& b = buffers[i];
    auto next = std::partition_point(hot.begin(), hot.end(),
                                     [&](auto& h) { return h.second <= b.lower; });
    if (!is_empty(b) && next != hot.end() && next->first < b.upper) out.push_back(int32_t(i));
  }
  return out;
}

// Where nothing is alive time falls apart: the buffers of each stretch.
std::vector<std::vector<int32_t>> stretches_of(std::span<const Buffer> buffers) {
  std::vector<int32_t> order;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!is_empty(buffers[i])) order.push_back(int32_t(i));
  }
  std::sort(order.begin(), order.end(), [&](int32_t i, int32_t j) {
    return buffers[size_t(i)].lower < buffers[size_t(j)].lower;
  });
  std::vector<std::vector<int32_t>> out;
  int64_t end = INT64_MIN;
  for (int32_t i : order) {
    if (out.empty() || buffers[size_t(i)].lower >= end) out.emplace_back();
    out.back().push_back(i);
    end = std::max(end, buffers[size_t(i)].upper);
  }
  return out;
}

// Beyond this a search spends its time on bookkeeping.
constexpr size_t kSearchable = 1500;

// Search for placements below `best`, of height `enough` at once, then halfway to it.
void search_below(std::span<const Buffer> buffers, int64_t enough, const PlaceOptions& options,
                  Placement& best) {
  using Clock = std::chrono::steady_clock;
  std::vector<int32_t> chosen;
  for (int percent : {0, 80, 90, 95, 98, 99, 100}) {
    chosen = alive_above(buffers, std::max<int64_t>(lower_bound_of(buffers) * percent / 100, 1));
    if (chosen.size() <= kSearchable) break;
  }
  if (chosen.size() > kSearchable) return;
  std::vector<Buffer> hot;
  for (int32_t i : chosen) hot.push_back(buffers[size_t(i)]);
  int64_t low = enough, nodes = options.nodes;
  for (int64_t capacity = enough; nodes > 0 && low < best.height;
       capacity = low + (best.height - low) / 2) {
    SearchLimits limits{nodes - nodes / 2, std::nullopt};
    if (options.deadline) {
      const auto now = Clock::now();
      if (now >= *options.deadline) return;
      limits = {INT64_MAX, now + (*options.deadline - now) * 3 / 4};
    }
    const SearchResult found = search_placement(hot, capacity, limits);
    if (!options.deadline) nodes -= std::max<int64_t>(found.nodes, 1);
    const int64_t height = best.height;
    if (found.answer == SearchResult::kFound) {
      std::vector<int64_t> frozen(buffers.size(), -1);
      for (size_t i = 0; i < hot.size(); ++i) frozen[size_t(chosen[i])] = found.offset[i];
      try_orders(buffers, enough, frozen, best);
      if (best.height < height) best.order = "search";
    }
    if (best.height == height) low = capacity + 1;
  }
}

}  // namespace

Placement place(std::span<const Buffer> buffers, const PlaceOptions& options) {
  Placement out;
  out.lower_bound = lower_bound_of(buffers);
  out.offset.assign(buffers.size(), 0);
  const int64_t enough = std::max(options.enough, out.lower_bound);
  std::vector<Buffer> part;
  for (const std::vector<int32_t>& stretch : stretches_of(buffers)) {
    part.clear();
    for (int32_t i : stretch) part.push_back(buffers[size_t(i)]);
    Placement best;
    best.height = INT64_MAX;
    try_orders(part, enough, {}, best);
    if (best.height > enough) search_below(part, enough, options, best);
    for (size_t i = 0; i < stretch.size(); ++i) out.offset[size_t(stretch[i])] = best.offset[i];
    if (best.height > out.height) out.height = best.height, out.order = best.order;
  }
  return out;
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
