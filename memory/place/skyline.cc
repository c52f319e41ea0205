// The flat places by height, and who lies on the lowest.
#include "memory/place/skyline.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

#include "memory/place/buffers/load.h"

namespace pal {
namespace {

// How high what was laid stands, over time: flat places, each as long as it goes.
class Line {
 public:
  explicit Line(int32_t times) : places_(size_t(times)) { add(0, times, 0, -1); }

  struct Place {
    int32_t end = 0, before = -1;  // where it ends, and where the one before it begins; -1: none
    int64_t height = -1;           // -1: none begins here
  };

  // Where the lowest begins; of several the first.
  int32_t lowest() {
    while (places_[size_t(lowest_.top().second)].height != lowest_.top().first) lowest_.pop();
    return lowest_.top().second;
  }
  const Place& at(int32_t begin) const { return places_[size_t(begin)]; }

  // Up to the lower of its neighbours, of which there is one.
  void fill_up(int32_t begin) {
    const Place place = at(begin);
    const bool last = place.end == std::ssize(places_);
    const int64_t left = place.before < 0 ? INT64_MAX : at(place.before).height;
    put(begin, place.end, std::min(left, last ? INT64_MAX : at(place.end).height), place.before);
  }
  // Lays what lives during [lower, upper), within the place, up to `top`.
  void lay(int32_t begin, int32_t lower, int32_t upper, int64_t top) {
    const Place place = at(begin);
    places_[size_t(begin)].height = -1;
    int32_t before = place.before;
    if (begin < lower) add(begin, lower, place.height, before), before = begin;
    if (upper < place.end) add(upper, place.end, place.height, lower);
    put(lower, upper, top, before);
  }

 private:
  // A place, one with its neighbours where these are as high.
  void put(int32_t begin, int32_t end, int64_t height, int32_t before) {
    if (end < std::ssize(places_) && at(end).height == height) {
      places_[size_t(end)].height = -1;
      end = at(end).end;
    }
    if (before >= 0 && at(before).height == height) {
      places_[size_t(begin)].height = -1;
      begin = before, before = at(before).before;
    }
    add(begin, end, height, before);
  }
  void add(int32_t begin, int32_t end, int64_t height, int32_t before) {
    places_[size_t(begin)] = {end, before, height};
    if (end < std::ssize(places_)) places_[size_t(end)].before = begin;
    lowest_.emplace(height, begin);
  }

  using Lowest = std::pair<int64_t, int32_t>;  // height, begin
  std::vector<Place> places_;                  // by where they begin
  std::priority_queue<Lowest, std::vector<Lowest>, std::greater<>>
      lowest_;  // and some that are no more
};

}  // namespace

Skyline::Skyline(std::span<const Buffer> buffers)
    : buffers_(with_ranks(buffers)), by_lower_(buffers.size()), rank_(buffers.size()) {
  std::iota(by_lower_.begin(), by_lower_.end(), 0);
  std::stable_sort(by_lower_.begin(), by_lower_.end(), [this](int32_t a, int32_t b) {
    return buffers_[size_t(a)].lower < buffers_[size_t(b)].lower;
  });
  for (int32_t place = 0; place < std::ssize(by_lower_); ++place) {
    const Buffer& b = buffers_[size_t(by_lower_[size_t(place)])];
    begins_at_.resize(size_t(std::max<int64_t>(b.lower + 1, std::ssize(begins_at_))), place);
  }
  int64_t end = 0;
  for (const Buffer& b : buffers_) end = std::max(end, b.upper);
  begins_at_.resize(size_t(end), int32_t(buffers.size()));
}

// Of those that are left, from this place in by_lower_ on.
int32_t Skyline::first_left(int32_t place) {
  while (next_left_[size_t(place)] != place) {
    int32_t& next = next_left_[size_t(place)];
    next = next_left_[size_t(next)];
    place = next;
  }
  return place;
}

// A place in by_lower_ of what is left and lives during [begin, end), the first in the order; their
// number where there is none.
int32_t Skyline::fitting(int32_t begin, int32_t end, int64_t& looks) {
  const auto count = int32_t(buffers_.size());
  int32_t found = count, rank = INT32_MAX;
  for (int32_t k = first_left(begins_at_[size_t(begin)]); k < count; k = first_left(k + 1)) {
    --looks;
    const auto i = size_t(by_lower_[size_t(k)]);
    if (buffers_[i].lower >= end) break;
    if (buffers_[i].upper <= end && rank_[i] < rank) found = k, rank = rank_[i];
  }
  return found;
}

Placement Skyline::run(std::span<const int32_t> order, int64_t& looks) {
  const auto count = int32_t(buffers_.size());
  for (int32_t k = 0; k < count; ++k) rank_[size_t(order[size_t(k)])] = k;
  next_left_.resize(size_t(count) + 1);
  std::iota(next_left_.begin(), next_left_.end(), 0);
  Placement out;
  out.offset.resize(size_t(count));
  if (count == 0) return out;
  Line line(int32_t(begins_at_.size()));
  for (int32_t left = count; left > 0;) {
    const int32_t begin = line.lowest();
    const Line::Place place = line.at(begin);
    const int32_t found = fitting(begin, place.end, looks);
    if (looks < 0) {
      out.height = INT64_MAX;
      return out;
    }
    if (found == count) {
      line.fill_up(begin);
      continue;
    }
    const int32_t i = by_lower_[size_t(found)];
    const Buffer& b = buffers_[size_t(i)];
    line.lay(begin, int32_t(b.lower), int32_t(b.upper), place.height + b.size);
    out.offset[size_t(i)] = place.height;
    out.height = std::max(out.height, place.height + b.size);
    next_left_[size_t(found)] = found + 1;
    --left;
  }
  return out;
}

}  // namespace pal
