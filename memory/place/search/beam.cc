// Where the floors beside each other differ there is a step. The lower side must be filled to the
// byte by what begins (or ends) at that time, so a step costs by how hard it is to fill.
#include "memory/place/search/beam.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace pal {

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

BeamSearch::BeamSearch(std::span<const Buffer> buffers, int64_t capacity) : capacity_(capacity) {
  std::vector<int64_t> times;
  for (const Buffer& b : buffers) times.push_back(b.lower), times.push_back(b.upper);
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  auto rank = [&](int64_t time) {
    return int32_t(std::lower_bound(times.begin(), times.end(), time) - times.begin());
  };
  sections_ = int32_t(times.size()) - 1;
  starts_.resize(times.size());
  ends_.resize(times.size());
  for (const Buffer& b : buffers) {
    const int32_t i = int32_t(size_.size());
    lower_.push_back(rank(b.lower));
    upper_.push_back(rank(b.upper));
    size_.push_back(b.size);
    starts_[size_t(lower_.back())].push_back(i);
    ends_[size_t(upper_.back())].push_back(i);
    std::mt19937_64 kind(uint64_t(lower_.back()) << 40 ^ uint64_t(upper_.back()) << 20 ^
                         uint64_t(b.size) * 0x9e3779b97f4a7c15u);
    kind_.push_back(kind());
  }
}

// Infinite when nothing is left to fill it with; `but` counts as placed.
double BeamSearch::step_cost(const State& s, int32_t time, int64_t left, int64_t right,
                             int32_t but) const {
  if (left == right) return 0;
  const auto& from = left < right ? ends_[size_t(time)] : starts_[size_t(time)];
  const int64_t gap = std::abs(left - right);
  double best = INFINITY;
  for (size_t i = 0; i < from.size(); ++i) {
    const int32_t a = from[i];
    if (a == but || is_placed(s, a)) continue;
    const int64_t size = size_[size_t(a)];
    if (size == gap) return 1;
    best = std::min(best, size < gap ? 2.5 : 3);
    if (size > gap) continue;
    for (size_t j = i + 1; j < from.size(); ++j) {
      if (from[j] != but && size + size_[size_t(from[j])] == gap && !is_placed(s, from[j]))
        best = 1.5;
    }
  }
  return best;
}

void BeamSearch::expand(const State& s, int32_t index) {
  int32_t from = 0, to = 0, least = INT32_MAX;
  for (int32_t l = 0; l < sections_;) {
    int32_t u = l + 1;
    const int64_t floor = s.floor[size_t(l)];
    while (u < sections_ && s.floor[size_t(u)] == floor) ++u;
    const bool valley = floor < capacity_ && (l == 0 || s.floor[size_t(l) - 1] > floor) &&
                        (u == sections_ || s.floor[size_t(u)] > floor);
    if (valley) {
      int32_t key = u - l;  // the narrowest, or the one with the fewest choices
      if (fewest_) {
        key = 0;
        for (int32_t b : starts_[size_t(l)]) key += upper_[size_t(b)] <= u && !is_placed(s, b);
      }
      if (key < least) from = l, to = u, least = key;
    }
    l = u;
  }
  const int64_t floor = s.floor[size_t(from)];
  uint64_t seen[64];
  int kinds = 0;
  for (int32_t b : starts_[size_t(from)]) {
    if (upper_[size_t(b)] > to || is_placed(s, b)) continue;
    if (std::find(seen, seen + kinds, kind_[size_t(b)]) != seen + kinds) continue;
    if (kinds < 64) seen[kinds++] = kind_[size_t(b)];
    ++nodes_;
    const int32_t l = lower_[size_t(b)], u = upper_[size_t(b)];
    const int64_t top = floor + size_[size_t(b)];
    double cost = s.cost;
    if (l > 0) {
      const int64_t beside = s.floor[size_t(l) - 1];
      cost += step_cost(s, l, beside, top, b) - step_cost(s, l, beside, floor, -1);
    }
    if (u < sections_) {
      const int64_t beside = s.floor[size_t(u)];
      cost += step_cost(s, u, top, beside, b) - step_cost(s, u, floor, beside, -1);
    }
    if (!(cost < INFINITY)) continue;
    const double chance = noise_ * double(random_() >> 11) * 0x1p-53;
    // Large ones first: a state that has used them up has an easier rest.
    const double area = double(size_[size_t(b)]) * double(u - l);
    children_.push_back(
        {cost + chance - area_ * std::log(area), cost, s.hash + kind_[size_t(b)], index, b, floor});
  }
}

void BeamSearch::child(const State& of, const Child& c, State& s) {
  s = of;
  const size_t b = size_t(c.buffer);
  std::fill(s.floor.begin() + lower_[b], s.floor.begin() + upper_[b], c.at + size_[b]);
  s.placed[b / 64] |= uint64_t{1} << (b % 64);
  s.cost = c.cost;
  s.hash = c.hash;
  s.step = int32_t(steps_.size());
  steps_.push_back({of.step, c.buffer, c.at});
}

SearchResult BeamSearch::run(int width, uint64_t seed, const SearchLimits& limits) {
  SearchResult out;
  random_.seed(seed);
  fewest_ = seed % 3 == 1;
  area_ = 0.5 * double(1 + (seed + 1) % 3);
  noise_ = 0.5 * double(1 << (seed / 3 % 3));
  nodes_ = 0;
  steps_.clear();
  std::vector<State> states(1), next;
  states[0].floor.assign(size_t(sections_), 0);
  states[0].placed.assign((size_.size() + 63) / 64, 0);
  for (size_t depth = 0; depth < size_.size() && !states.empty(); ++depth) {
    children_.clear();
    for (size_t i = 0; i < states.size(); ++i) {
      expand(states[i], int32_t(i));
      if (nodes_ >= limits.nodes || ((i & 63) == 0 && limits.deadline &&
                                     std::chrono::steady_clock::now() >= *limits.deadline)) {
        out.nodes = nodes_;
        return out;
      }
    }
    std::sort(children_.begin(), children_.end(), [](const Child& a, const Child& b) {
      return a.rank != b.rank ? a.rank < b.rank : a.hash < b.hash;
    });
    std::unordered_set<uint64_t> seen;
    size_t kept = 0;  // those of before the last are overwritten: no allocation
    for (const Child& c : children_) {
      if (int(kept) == width) break;
      if (!seen.insert(c.hash).second) continue;
      if (kept == next.size()) next.emplace_back();
      child(states[size_t(c.state)], c, next[kept++]);
    }
    next.resize(kept);
    states.swap(next);
  }
  out.nodes = nodes_;
  if (states.empty()) return out;
  out.answer = SearchResult::kFound;
  out.offset.assign(size_.size(), 0);
  for (int32_t s = states[0].step; s >= 0; s = steps_[size_t(s)].before)
    out.offset[size_t(steps_[size_t(s)].buffer)] = steps_[size_t(s)].at;
  return out;
}

}  // namespace pal
