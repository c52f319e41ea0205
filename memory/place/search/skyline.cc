// Search over skylines. A section is a stretch of time in which the same buffers are alive; its
// floor is the byte up to which everything is decided. A valley is a run of sections of one floor
// between higher walls. What covers the valley's outermost section next either lies on the floor
// inside the valley, or leaves a hole below itself: that is the branching, and every justified
// placement is met once, in whatever order the valleys are taken.
//
// A section's slack is capacity - floor - bytes still to come: holes may cost that much. Without
// slack (a perfect packing) nearly every move is forced, and the floors follow from the set of
// buffers left, so that remembered failures catch every permutation of what lies below.
#include "memory/place/search/skyline.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace pal {

SkylineSearch::SkylineSearch(std::span<const Buffer> buffers, int64_t capacity,
                             std::optional<Clock::time_point> deadline)
    : buffers_(buffers),
      capacity_(capacity),
      deadline_(deadline.value_or(Clock::time_point::max())) {
  number_sections();
  blame_.assign(size_t(sections_), 1);
  std::mt19937_64 random(20231);
  for (size_t i = 0; i < buffers.size(); ++i) zobrist_.push_back(random());
}

SearchResult::Answer SkylineSearch::run(Prefer prefer, bool lowest, uint64_t seed, int64_t nodes) {
  begin(prefer, seed);
  for (int32_t s = 0; s < sections_; ++s) {
    if (slack(s) < 0) return SearchResult::kInfeasible;
  }
  lowest_ = lowest;
  nodes_left_ = nodes;
  gave_up_ = false;
  const bool found = descend(0, sections_);
  nodes_ += nodes - nodes_left_;
  return found      ? SearchResult::kFound
         : gave_up_ ? SearchResult::kGaveUp
                    : SearchResult::kInfeasible;
}

void SkylineSearch::number_sections() {
  std::vector<int64_t> times;
  for (const Buffer& b : buffers_) times.push_back(b.lower), times.push_back(b.upper);
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  auto rank = [&](int64_t time) {
    return int32_t(std::lower_bound(times.begin(), times.end(), time) - times.begin());
  };
  sections_ = std::max(int32_t(times.size()) - 1, 0);
  for (const Buffer& b : buffers_) {
    lower_.push_back(rank(b.lower));
    upper_.push_back(rank(b.upper));
  }
}

// Everything unplaced, and the corner lists in the order in which they are to be tried.
void SkylineSearch::begin(Prefer prefer, uint64_t seed) {
  const size_t n = buffers_.size();
  offset_.assign(n, 0);
  left_.assign(n, 1);
  floor_.assign(size_t(sections_), 0);
  rest_.assign(size_t(sections_), 0);
  crossing_.assign(size_t(sections_) + 1, 0);
  set_hash_.assign(size_t(sections_), 0);
  starts_.assign(size_t(sections_), {});
  ends_.assign(size_t(sections_), {});
  moves_.clear();
  for (size_t i = 0; i < n; ++i) count(int32_t(i), 1);
  std::mt19937_64 random(seed);
  std::vector<double> key(n);
  for (size_t i = 0; i < n; ++i) {
    const double size = double(buffers_[i].size), sections = double(upper_[i] - lower_[i]);
    int64_t load = 0;
    for (int32_t s = lower_[i]; s < upper_[i]; ++s) load = std::max(load, rest_[size_t(s)]);
    key[i] = prefer == Prefer::kSize       ? size
             : prefer == Prefer::kArea     ? size * sections
             : prefer == Prefer::kDuration ? sections
             : prefer == Prefer::kLoad     ? double(load)
                                           : double(random() % 1024);
  }
  std::vector<int32_t> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = int32_t(i);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const size_t i = size_t(a), j = size_t(b);
    if (key[i] != key[j]) return key[i] > key[j];
    if (buffers_[i].size != buffers_[j].size) return buffers_[i].size > buffers_[j].size;
    if (upper_[i] != upper_[j]) return upper_[i] > upper_[j];
    return a < b;
  });
  for (int32_t i : order) {
    starts_[size_t(lower_[size_t(i)])].push_back(i);
    ends_[size_t(upper_[size_t(i)]) - 1].push_back(i);
  }
}

// Adds buffer i to what is left, or takes it away (sign -1).
void SkylineSearch::count(int32_t i, int sign) {
  const size_t b = size_t(i);
  for (int32_t s = lower_[b]; s < upper_[b]; ++s) rest_[size_t(s)] += sign * buffers_[b].size;
  for (int32_t t = lower_[b] + 1; t < upper_[b]; ++t) crossing_[size_t(t)] += sign;
  set_hash_[size_t(lower_[b])] ^= zobrist_[b];
  left_[b] = sign > 0;
}

void SkylineSearch::put(int32_t i, int64_t at) {
  const size_t b = size_t(i);
  offset_[b] = at;
  for (int32_t s = lower_[b]; s < upper_[b]; ++s) floor_[size_t(s)] = at + buffers_[b].size;
  count(i, -1);
  moves_.push_back({i, 0, at});
}

void SkylineSearch::raise(int32_t section, int64_t to) {
  moves_.push_back({-1, section, floor_[size_t(section)]});
  floor_[size_t(section)] = to;
}

void SkylineSearch::undo_to(size_t count_of_moves) {
  for (; moves_.size() > count_of_moves; moves_.pop_back()) {
    const Move& m = moves_.back();
    if (m.buffer < 0) {
      floor_[size_t(m.section)] = m.floor;
      continue;
    }
    const size_t b = size_t(m.buffer);
    for (int32_t s = lower_[b]; s < upper_[b]; ++s) floor_[size_t(s)] = m.floor;
    count(m.buffer, 1);
  }
}

// Places all that is left in [from, to), one independent stretch after the other: where nothing
// left crosses, the two sides do not know of each other, and one failure fails all.
bool SkylineSearch::descend(int32_t from, int32_t to) {
  std::vector<std::pair<int32_t, int32_t>> parts;  // (length, start)
  int32_t start = from;
  for (int32_t t = from + 1; t <= to; ++t) {
    if (t < to && crossing_[size_t(t)] > 0) continue;
    if (rest_[size_t(start)] > 0) parts.push_back({t - start, start});
    start = t;
  }
  if (parts.size() > 1) std::sort(parts.begin(), parts.end());
  for (auto [length, first] : parts) {
    if (!solve(first, first + length)) return false;
  }
  return true;
}

// [from, to) is connected. On failure the caller undoes the moves.
bool SkylineSearch::solve(int32_t from, int32_t to) {
  nodes_left_ -= 1 + (to - from) / 64;  // work, so that long problems do not take longer
  if (nodes_left_ < 0 || ((++visits_ & 255) == 0 && Clock::now() >= deadline_)) {
    gave_up_ = true;
    return false;
  }
  const uint64_t state = hash(from, to);
  if (failed_.count(state)) return false;
  const Corner corner = choose(from, to);
  if (corner.choices > 0) {
    const size_t mark = moves_.size();
    const int64_t floor = floor_[size_t(corner.section())];
    for (int32_t b : candidates(corner)) {
      put(b, floor);
      if (descend(from, to)) return true;
      undo_to(mark);
      if (gave_up_) return false;
    }
    if (corner.raise > 0) {
      raise(corner.section(), corner.raise);
      if (descend(from, to)) return true;
      undo_to(mark);
      if (gave_up_) return false;
    }
  }
  if (failed_.size() < kMostFailures) failed_.insert(state);
  return false;
}

uint64_t SkylineSearch::hash(int32_t from, int32_t to) const {
  uint64_t h = uint64_t(from) << 32 | uint64_t(to);
  for (int32_t s = from; s < to; ++s) {
    h = (h ^ uint64_t(floor_[size_t(s)]) ^ set_hash_[size_t(s)]) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  }
  return h;
}

const std::vector<int32_t>& SkylineSearch::list(const Corner& c) const {
  return c.left ? starts_[size_t(c.section())] : ends_[size_t(c.section())];
}
bool SkylineSearch::fits(const Corner& c, int32_t b) const {
  return left_[size_t(b)] && lower_[size_t(b)] >= c.from && upper_[size_t(b)] <= c.to;
}

// Of buffers alike one is enough.
std::vector<int32_t> SkylineSearch::candidates(const Corner& c) const {
  std::vector<int32_t> out;
  for (int32_t b : list(c)) {
    if (!fits(c, b)) continue;
    const bool again = std::any_of(out.begin(), out.end(), [&](int32_t o) {
      return lower_[size_t(o)] == lower_[size_t(b)] && upper_[size_t(o)] == upper_[size_t(b)] &&
             buffers_[size_t(o)].size == buffers_[size_t(b)].size;
    });
    if (!again) out.push_back(b);
  }
  return out;
}

// The corner to decide next; choices 0 when some corner cannot be filled at all.
SkylineSearch::Corner SkylineSearch::choose(int32_t from, int32_t to) {
  Corner best;
  int64_t best_floor = INT64_MAX;
  double least = INFINITY;
  for (int32_t l = from; l < to;) {
    int32_t u = l + 1;
    const int64_t floor = floor_[size_t(l)];
    while (u < to && floor_[size_t(u)] == floor) ++u;
    const int64_t left_wall = l == from ? capacity_ : floor_[size_t(l) - 1];
    const int64_t right_wall = u == to ? capacity_ : floor_[size_t(u)];
    if (left_wall > floor && right_wall > floor) {
      for (bool left : {true, false}) {
        Corner c{l, u, left};
        weigh(c, left ? left_wall : right_wall, left ? right_wall : left_wall);
        if (c.choices == 0) {
          ++blame_[size_t(c.section())];
          return c;
        }
        // A forced move costs nothing. Then where failures were (dom/wdeg, Boussemart, 2004).
        double cost = c.choices == 1 ? 0 : c.choices / blame_[size_t(c.section())];
        if (lowest_) cost = double(floor);
        if (cost < least ||
            (cost == least && (lowest_ ? c.choices < best.choices : floor < best_floor))) {
          best = c, best_floor = floor, least = cost;
        }
      }
    }
    l = u;
  }
  return best;
}

// Counts what the corner can take: 0 when the wall beside it leaves a hole too large.
void SkylineSearch::weigh(Corner& c, int64_t wall, int64_t far_wall) const {
  const size_t s = size_t(c.section());
  const int64_t floor = floor_[s], free = slack(int32_t(s));
  const int64_t gap = wall - floor;
  // Below the wall only buffers that begin (or end) at it can lie.
  sizes_.clear();
  int64_t sum = 0;
  c.choices = 0;
  for (int32_t b : list(c)) {
    if (!left_[size_t(b)]) continue;
    const int64_t size = buffers_[size_t(b)].size;
    if (fits(c, b)) ++c.choices;
    if (size <= gap) sizes_.push_back(size), sum += size;
  }
  const int64_t needed = gap - free;  // to be filled
  // A buffer that begins here may stick out above the wall; then it closes the gap by itself.
  if (sum < rest_[s] && needed > 0 && !can_fill(gap, needed, sum, c)) c.choices = 0;
  if (c.choices == 0 && needed > 0 && sum < needed) return;
  const int64_t above = floor + (c.to - c.from > 1 ? smallest(c) : INT64_MAX / 2);
  const int64_t to = std::min({wall, far_wall, above});
  if (free > 0 && to - floor <= free) c.raise = to, ++c.choices;
}

int64_t SkylineSearch::smallest(const Corner& c) const {
  int64_t least = INT64_MAX / 2;
  for (int32_t s = c.from; s < c.to; ++s) {
    for (int32_t b : starts_[size_t(s)]) {
      if (fits(c, b)) least = std::min(least, buffers_[size_t(b)].size);
    }
  }
  return least;
}

// Whether the gap below the wall can be filled to within the slack: exactly some of sizes_, then
// perhaps one that sticks out above the wall.
bool SkylineSearch::can_fill(int64_t gap, int64_t needed, int64_t sum, const Corner& c) const {
  for (int32_t b : list(c)) {
    if (left_[size_t(b)] && buffers_[size_t(b)].size > gap) return true;
  }
  if (sum < needed) return false;
  if (sum <= gap) return true;
  if (sizes_.size() > 12) return true;
  for (uint32_t set = 1; set < 1u << sizes_.size(); ++set) {
    int64_t total = 0;
    for (size_t i = 0; i < sizes_.size(); ++i) total += set >> i & 1 ? sizes_[i] : 0;
    if (total >= needed) return true;
  }
  return false;
}

}  // namespace pal
