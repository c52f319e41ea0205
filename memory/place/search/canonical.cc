// A placement pushed down as far as it goes has every buffer on the floor or on another; listed
// from below (ties by a fixed order) it is met exactly once. So buffers are placed from below, each
// at the lowest offset that those already placed leave it, never lower than the one before it.
//
// Cut off: what would leave a gap below itself into which a buffer left over fits; sections whose
// bytes to come no longer fit above the least offset that any of them can have; and, where a buffer
// with nothing above it was in vain, its alternatives. Where nothing left crosses, the two sides
// are solved on their own. States that failed are remembered: what lies below matters only through
// the least offsets of what is left.
#include "memory/place/search/canonical.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include "memory/place/buffers/load.h"

namespace pal {

CanonicalSearch::CanonicalSearch(std::span<const Buffer> buffers, int64_t capacity,
                                 const Deadline& deadline)
    : buffers_(buffers),
      capacity_(capacity),
      deadline_(deadline.value_or(Clock::time_point::max())) {
  number_sections();
  const size_t n = buffers.size();
  of_.resize(size_t(sections_));
  beside_.resize(n);
  std::map<std::tuple<int32_t, int32_t, int64_t>, int32_t> kinds;
  for (size_t i = 0; i < n; ++i) {
    size_.push_back(buffers[i].size);
    kind_.push_back(kinds.try_emplace({lower_[i], upper_[i], size_[i]}, int32_t(i)).first->second);
    for (int32_t s = lower_[i]; s < upper_[i]; ++s) of_[s].push_back(int32_t(i));
    for (size_t j = 0; j < n; ++j) {
      if (j != i && buffers[j].lower < buffers[i].upper && buffers[i].lower < buffers[j].upper)
        beside_[i].push_back(int32_t(j));
    }
  }
}

// Only moments at which no more can be alive than before and after: a section ends where something
// ends after something began.
void CanonicalSearch::number_sections() {
  lower_.resize(buffers_.size());
  upper_.resize(buffers_.size());
  bool began = false;
  for (const Event& e : events_of(buffers_)) {
    if (e.starts) {
      lower_[e.buffer] = sections_;
    } else {
      sections_ += began;
      upper_[e.buffer] = sections_;
    }
    began = e.starts;
  }
}

void CanonicalSearch::begin() {
  const size_t n = buffers_.size();
  offset_.assign(n, 0);
  low_.assign(n, 0);
  floor_.assign(size_t(sections_), 0);
  rest_.assign(size_t(sections_), 0);
  lowest_.assign(size_t(sections_), -1);
  crossing_.assign(size_t(sections_) + 1, 0);
  lows_.clear();
  floors_.clear();
  choices_.clear();
  moves_.clear();
  for (size_t i = 0; i < n; ++i) {
    for (int32_t s = lower_[i]; s < upper_[i]; ++s) {
      rest_[s] += size_[i];
      lowest_[s] = int32_t(i);
    }
    for (int32_t t = lower_[i] + 1; t < upper_[i]; ++t) ++crossing_[t];
  }
}

SearchResult::Answer CanonicalSearch::run(std::string_view keys, int64_t nodes) {
  begin();
  for (int64_t rest : rest_) {
    if (rest > capacity_) return SearchResult::kInfeasible;
  }
  keys_ = keys;
  const int64_t before = work_;
  most_work_ = nodes < INT64_MAX / kNode - work_ ? work_ + nodes * kNode : INT64_MAX;
  gave_up_ = false;
  // Remembered failures depend on the order.
  failed_.assign(std::bit_ceil(std::clamp<size_t>(size_t(nodes) * 4, 1024, kMostFailures)), 0);
  Part all{0, sections_, {}};
  for (size_t i = 0; i < buffers_.size(); ++i) all.left.push_back(int32_t(i));
  sort(all);
  const bool found = descend(all);
  nodes_ += 1 + (work_ - before) / kNode;
  return found      ? SearchResult::kFound
         : gave_up_ ? SearchResult::kGaveUp
                    : SearchResult::kInfeasible;
}

// By the keys, as things are now.
void CanonicalSearch::sort(Part& part) {
  auto key = [&](int32_t i, char what) -> double {
    const size_t b = size_t(i);
    const double alive = double(buffers_[b].upper - buffers_[b].lower);
    switch (what) {
      case 't':
        return double(*std::max_element(rest_.begin() + lower_[b], rest_.begin() + upper_[b]));
      case 'a': return alive * double(size_[b]);
      case 'w': return alive;
      case 'z': return double(size_[b]);
      case 'o': return double(beside_[b].size());
      case 's': return -double(buffers_[b].lower);
      default: return double(buffers_[b].upper);
    }
  };
  struct Keyed {
    double key[4];
    int32_t kind, buffer;
  };
  std::vector<Keyed> order;
  for (int32_t i : part.left) {
    Keyed k{{}, kind_[i], i};
    for (size_t j = 0; j < std::min<size_t>(keys_.size(), 4); ++j) k.key[j] = -key(i, keys_[j]);
    order.push_back(k);
  }
  std::sort(order.begin(), order.end(), [](const Keyed& a, const Keyed& b) {
    return std::tie(a.key[0], a.key[1], a.key[2], a.key[3], a.kind, a.buffer) <
           std::tie(b.key[0], b.key[1], b.key[2], b.key[3], b.kind, b.buffer);
  });
  for (size_t i = 0; i < order.size(); ++i) {
    part.left[i] = order[i].buffer;
    work_ += 20 + upper_[order[i].buffer] - lower_[order[i].buffer];
  }
}

// Places all that is left. The levels are kept in a vector, deepest last: there may be as many as
// buffers, more than the machine's own stack has room for.
bool CanonicalSearch::descend(const Part& all) {
  std::vector<Level> levels(1);  // the first makes no choice
  levels[0].part = &all;
  cut(levels[0], 0, sections_);
  while (true) {
    Level& level = levels.back();
    if (level.done == level.count) {
      choices_.resize(level.begin);
      levels.pop_back();
      if (levels.empty()) return true;
      ++levels.back().done;
      continue;
    }
    Level below;
    below.part = level.parts + level.done;
    const Opened opened = open(below, level.at, level.rank);
    if (opened == Opened::kPlaced) {
      ++level.done;
      continue;
    }
    if (opened == Opened::kChoices) {
      levels.push_back(std::move(below));
      if (choose(levels.back())) continue;
      levels.pop_back();
    }
    // A part that cannot be placed rules out the choice above it, whatever the other parts allow.
    while (!choose_again(levels.back())) {
      levels.pop_back();
      if (levels.empty()) return false;
    }
  }
}

// Lists the choices of a level that may place from offset `lowest` on, and there from this rank on.
CanonicalSearch::Opened CanonicalSearch::open(Level& level, int64_t lowest, int32_t first) {
  const Part& part = *level.part;
  work_ += 2 * int64_t(part.left.size());
  const bool look = work_ >= next_look_;
  if (look) next_look_ = work_ + kLook;
  if (work_ >= most_work_ || (look && Clock::now() >= deadline_)) {
    gave_up_ = true;
    return Opened::kFailed;
  }
  // The lowest top: what lay above it would leave room below for that buffer.
  int64_t end = kPlaced;
  for (int32_t b : part.left) end = std::min(end, low_[b] + size_[b]);
  if (end == kPlaced) return Opened::kPlaced;
  // Nothing will lie below this one, so all that is left of a section is to fit above it.
  const int64_t most = *std::max_element(rest_.begin() + part.from, rest_.begin() + part.to);
  end = std::min(end, capacity_ - most + 1);

  level.begin = level.next = choices_.size();
  uint64_t state = uint64_t(part.from) << 32 | uint64_t(part.to);
  int32_t last_kind = -1;
  for (int32_t r = 0; r < int32_t(part.left.size()); ++r) {
    const size_t b = size_t(part.left[r]);
    const int64_t at = low_[b];
    if (at == kPlaced) continue;
    // Where it could lie, unless it may not lie there any more.
    const bool late = at < lowest || (at == lowest && r < first);
    const uint64_t x = (uint64_t(at) << 1 | uint64_t(late)) * 0x9e3779b97f4a7c15u +
                       uint64_t(kind_[b]) * 0xbf58476d1ce4e5b9u;
    state += (x ^ x >> 29) * 0x94d049bb133111ebu;
    if (late || at >= end || kind_[b] == last_kind) continue;
    last_kind = kind_[b];
    choices_.push_back({at, r, int32_t(b)});
  }
  level.state = state ^ state >> 32;
  if (failed_[level.state & (failed_.size() - 1)] == level.state) {
    choices_.resize(level.begin);
    return Opened::kFailed;
  }
  level.end = choices_.size();
  std::sort(choices_.begin() + long(level.begin), choices_.end(),
            [](const Choice& a, const Choice& b) {
              return a.at != b.at ? a.at < b.at : a.rank < b.rank;
            });
  return Opened::kChoices;
}

// Takes the next choice after which all can still fit; where there is none the level has failed.
bool CanonicalSearch::choose(Level& level) {
  while (level.next < level.end && !gave_up_) {
    const Choice c = choices_[level.next++];
    const size_t lows = lows_.size();
    level.mark = moves_.size();
    if (put(c.buffer, c.at)) {
      level.last = lows_.size() == lows;  // it raised nothing: no other choice will do better
      level.at = c.at, level.rank = c.rank;
      cut(level, lower_[c.buffer], upper_[c.buffer]);
      return true;
    }
    undo_to(level.mark);
  }
  choices_.resize(level.begin);
  if (!gave_up_) failed_[level.state & (failed_.size() - 1)] = level.state;
  return false;
}

// Another choice than the one that failed.
bool CanonicalSearch::choose_again(Level& level) {
  undo_to(level.mark);
  if (level.last) level.next = level.end;
  return choose(level);
}

// What the level's choice left to be placed: its part, or each part into which boundaries from
// `first` to `last` now cut it.
void CanonicalSearch::cut(Level& level, int32_t first, int32_t last) {
  const Part& part = *level.part;
  level.done = 0;
  std::vector<int32_t> cuts;
  for (int32_t t = std::max(first, part.from + 1); t <= std::min(last, part.to - 1); ++t) {
    if (crossing_[t] == 0) cuts.push_back(t);
  }
  level.own.clear();
  if (cuts.empty()) {
    level.parts = level.part, level.count = 1;
    return;
  }
  int32_t from = part.from;
  cuts.push_back(part.to);
  for (int32_t to : cuts) {
    if (rest_[from] > 0) level.own.push_back({from, to, {}});
    from = to;
  }
  for (Part& p : level.own) {
    for (int32_t i : part.left) {
      if (low_[i] != kPlaced && lower_[i] >= p.from && upper_[i] <= p.to) p.left.push_back(i);
    }
    sort(p);
  }
  std::sort(level.own.begin(), level.own.end(), [](const Part& x, const Part& y) {
    return x.left.size() != y.left.size() ? x.left.size() < y.left.size() : x.from < y.from;
  });
  level.parts = level.own.data(), level.count = level.own.size();
  level.rank = 0;  // the parts have orders of their own
}

// Whether what is left can still fit. To be undone either way.
bool CanonicalSearch::put(int32_t buffer, int64_t at) {
  const size_t b = size_t(buffer);
  const int64_t top = at + size_[b];
  moves_.push_back({buffer, lows_.size(), floors_.size()});
  offset_[b] = at;
  low_[b] = kPlaced;
  for (int32_t s = lower_[b]; s < upper_[b]; ++s) rest_[s] -= size_[b];
  for (int32_t t = lower_[b] + 1; t < upper_[b]; ++t) --crossing_[t];
  int32_t from = lower_[b], to = upper_[b];
  for (int32_t o : beside_[b]) {
    const size_t c = size_t(o);
    if (low_[c] >= top) continue;
    lows_.push_back({o, low_[c]});
    low_[c] = top;
    from = std::min(from, lower_[c]), to = std::max(to, upper_[c]);
  }
  work_ += upper_[b] - lower_[b] + int64_t(beside_[b].size()) + to - from;
  for (int32_t s = from; s < to; ++s) {
    const int64_t floor = floor_[s];
    if (low_[lowest_[s]] == floor) continue;
    if (!lift(s, s >= lower_[b] && s < upper_[b] ? top : floor, s > from ? s - 1 : s)) return false;
  }
  return true;
}

// Raises a section's floor to the least offset of what is left there, which is at least `least`.
bool CanonicalSearch::lift(int32_t section, int64_t least, int32_t beside) {
  const size_t s = size_t(section);
  if (rest_[s] == 0) return true;
  int64_t floor = kPlaced;
  const std::vector<int32_t>& of = of_[s];
  size_t k = 0;
  int32_t lowest = lowest_[beside];  // most are alive in both
  if (lower_[lowest] <= section && section < upper_[lowest]) floor = low_[lowest];
  for (; k < of.size() && floor > least; ++k) {
    if (low_[of[k]] < floor) lowest = of[k], floor = low_[lowest];
  }
  work_ += int64_t(k);
  if (floor > floor_[s]) {
    floors_.push_back({section, lowest_[s], floor_[s]});
    floor_[s] = floor;
  }
  lowest_[s] = lowest;
  return floor + rest_[s] <= capacity_;
}

void CanonicalSearch::undo_to(size_t count_of_moves) {
  for (; moves_.size() > count_of_moves; moves_.pop_back()) {
    const Move& m = moves_.back();
    for (; floors_.size() > m.floors; floors_.pop_back()) {
      const Floor& f = floors_.back();
      floor_[f.section] = f.floor;
      lowest_[f.section] = f.lowest;
    }
    for (; lows_.size() > m.lows; lows_.pop_back()) low_[lows_.back().buffer] = lows_.back().low;
    const size_t b = size_t(m.buffer);
    low_[b] = offset_[b];
    for (int32_t s = lower_[b]; s < upper_[b]; ++s) rest_[s] += size_[b];
    for (int32_t t = lower_[b] + 1; t < upper_[b]; ++t) ++crossing_[t];
  }
}

}  // namespace pal
