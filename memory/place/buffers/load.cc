// Sweeps over time: bounds, stretches, and the check of a placement.
#include "memory/place/buffers/load.h"

#include <algorithm>
#include <set>
#include <string>

#include "core/error.h"

namespace pal {
namespace {

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

int64_t hottest_moment(std::span<const Buffer> buffers) {
  int64_t live = 0, most = 0, moment = 0;
  for (const Edge& e : edges_of(buffers)) {
    live += e.bytes;
    if (live > most) most = live, moment = e.time;
  }
  return moment;
}

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
    auto next =
        std::partition_point(hot.begin(), hot.end(), [&](auto& h) { return h.second <= b.lower; });
    if (!is_empty(b) && next != hot.end() && next->first < b.upper) out.push_back(int32_t(i));
  }
  return out;
}

std::vector<std::vector<int32_t>> stretches_of(std::span<const Buffer> buffers) {
  std::vector<int32_t> order;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!is_empty(buffers[i])) order.push_back(int32_t(i));
  }
  std::sort(order.begin(), order.end(),
            [&](int32_t i, int32_t j) { return buffers[i].lower < buffers[j].lower; });
  std::vector<std::vector<int32_t>> out;
  int64_t end = INT64_MIN;
  for (int32_t i : order) {
    if (out.empty() || buffers[i].lower >= end) out.emplace_back();
    out.back().push_back(i);
    end = std::max(end, buffers[i].upper);
  }
  return out;
}

bool fills(std::span<const Buffer> buffers, int64_t capacity) {
  int64_t lower = INT64_MAX, upper = INT64_MIN;
  double area = 0;
  for (const Buffer& b : buffers) {
    lower = std::min(lower, b.lower), upper = std::max(upper, b.upper);
    area += double(b.size) * double(b.upper - b.lower);
  }
  return !buffers.empty() && lower_bound_of(buffers) == capacity &&
         area == double(capacity) * double(upper - lower);
}

std::vector<int64_t> times_of(std::span<const Buffer> buffers) {
  std::vector<int64_t> times;
  times.reserve(2 * buffers.size());
  for (const Buffer& b : buffers) times.push_back(b.lower), times.push_back(b.upper);
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

std::vector<Buffer> with_ranks(std::span<const Buffer> buffers) {
  const std::vector<int64_t> times = times_of(buffers);
  const auto rank = [&](int64_t time) {
    return std::lower_bound(times.begin(), times.end(), time) - times.begin();
  };
  std::vector<Buffer> out;
  out.reserve(buffers.size());
  for (const Buffer& b : buffers) out.push_back({rank(b.lower), rank(b.upper), b.size});
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
      return buffers[a].*member < buffers[b].*member;
    };
  };
  std::sort(starts.begin(), starts.end(), by(&Buffer::lower));
  std::sort(ends.begin(), ends.end(), by(&Buffer::upper));
  std::set<std::pair<int64_t, int32_t>> live;  // (offset, buffer): neighbours must not touch
  size_t ended = 0;
  for (int32_t i : starts) {
    for (; buffers[ends[ended]].upper <= buffers[i].lower; ++ended) {
      live.erase({offset[ends[ended]], ends[ended]});
    }
    const int64_t begin = offset[i], end = begin + buffers[i].size;
    auto next = live.lower_bound({begin, 0});
    int32_t clash = -1;
    if (next != live.end() && next->first < end) clash = next->second;
    if (next != live.begin()) {
      auto before = std::prev(next);
      if (before->first + buffers[before->second].size > begin) clash = before->second;
    }
    if (clash >= 0 || begin < 0) {
      throw ProgramError("place: buffer " + std::to_string(i) + " at " + std::to_string(begin) +
                         (clash < 0 ? " is below 0" : " overlaps buffer " + std::to_string(clash)));
    }
    live.insert({begin, i});
  }
}

}  // namespace pal
