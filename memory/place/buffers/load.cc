// Sweeps over time: bounds, stretches, and the check of a placement.
#include "memory/place/buffers/load.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "core/error.h"

namespace pal {
namespace {

int64_t change_of(std::span<const Buffer> buffers, const Event& e) {
  return e.starts ? buffers[size_t(e.buffer)].size : -buffers[size_t(e.buffer)].size;
}

}  // namespace

std::vector<int32_t> not_empty(std::span<const Buffer> buffers) {
  std::vector<int32_t> out;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!is_empty(buffers[i])) out.push_back(int32_t(i));
  }
  return out;
}

std::vector<Event> events_of(std::span<const Buffer> buffers) {
  std::vector<Event> events;
  events.reserve(2 * buffers.size());
  for (int32_t i : not_empty(buffers)) {
    events.push_back({buffers[size_t(i)].lower, true, i});
    events.push_back({buffers[size_t(i)].upper, false, i});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tie(a.time, a.starts, a.buffer) < std::tie(b.time, b.starts, b.buffer);
  });
  return events;
}

HottestMoment hottest_moment(std::span<const Buffer> buffers) {
  HottestMoment hottest;
  int64_t live = 0;
  for (const Event& e : events_of(buffers)) {
    live += change_of(buffers, e);
    if (live > hottest.bytes) hottest = {e.time, live};
  }
  return hottest;
}

std::vector<int32_t> alive_above(std::span<const Buffer> buffers, int64_t load) {
  std::vector<std::pair<int64_t, int64_t>> hot;  // stretches of time, in order
  int64_t live = 0;
  for (const Event& e : events_of(buffers)) {
    const bool before = live >= load;
    live += change_of(buffers, e);
    if (!before && live >= load) hot.emplace_back(e.time, e.time);
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
  std::vector<int32_t> order = not_empty(buffers);
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

std::optional<Overlap> overlap_of(std::span<const Buffer> buffers,
                                  std::span<const int64_t> offset) {
  std::set<std::pair<int64_t, int32_t>> live;  // (offset, buffer): neighbours must not touch
  for (const auto& [time, starts, i] : events_of(buffers)) {
    const int64_t begin = offset[size_t(i)], end = begin + buffers[size_t(i)].size;
    if (!starts) {
      live.erase({begin, i});
      continue;
    }
    const auto next = live.lower_bound({begin, 0});
    if (next != live.begin()) {
      const auto [at, before] = *std::prev(next);
      if (at + buffers[size_t(before)].size > begin) return Overlap{before, i};
    }
    if (next != live.end() && next->first < end) return Overlap{next->second, i};
    live.insert({begin, i});
  }
  return {};
}

void check_placement(std::span<const Buffer> buffers, std::span<const int64_t> offset) {
  auto fail = [&](int32_t i, const std::string& what) {
    throw ProgramError("place: buffer " + std::to_string(i) + " at " +
                       std::to_string(offset[size_t(i)]) + what);
  };
  for (int32_t i : not_empty(buffers)) {
    if (offset[size_t(i)] < 0) fail(i, " is below 0");
  }
  if (const auto clash = overlap_of(buffers, offset)) {
    fail(clash->second, " overlaps buffer " + std::to_string(clash->first));
  }
}

}  // namespace pal
