// Two chains of copies over the list of places.
#include "memory/front/sketch_link.h"

#include <algorithm>

namespace pal {

SketchLink::SketchLink(const SketchTable& table, const SketchSlots& slots)
    : t_(table), slots_(slots) {
  index_of_node_.assign(t_.order.size(), 0), index_of_clone_.assign(t_.order.size(), 0);
  const size_t most = 2 * t_.order.size();  // with all clones
  places_.resize(most), start_.assign(most + 1, 0);
  trips_.resize(t_.bytes.size());
}

void SketchLink::change_slot(int32_t position) { listed_ = std::min(listed_, size_t(position)); }

std::vector<StorageId>::iterator SketchLink::in_leaving(StorageId s) {
  return std::lower_bound(leaving_.begin(), leaving_.end(), s,
                          [&](StorageId a, StorageId b) { return leaves_before(a, b); });
}

std::vector<SketchLink::Homeward>::iterator SketchLink::in_homeward(StorageId s) {
  const Homeward one{trips_[s].back.begin, s};
  return std::lower_bound(
      homeward_.begin(), homeward_.end(), one, [&](const Homeward& a, const Homeward& b) {
        return a.begin != b.begin ? a.begin > b.begin : leaves_before(a.map, b.map);
      });
}

void SketchLink::insert_homeward(StorageId s) {
  const auto at = in_homeward(s);
  from_homeward_ = std::min(from_homeward_, size_t(at - homeward_.begin()));
  homeward_.insert(at, {trips_[s].back.begin, s});
}

void SketchLink::erase_homeward(StorageId s) {
  const auto at = in_homeward(s);
  from_homeward_ = std::min(from_homeward_, size_t(at - homeward_.begin()));
  homeward_.erase(at);
}

void SketchLink::send(StorageId s, const PlaceSpan& kept, const PlaceSpan& back) {
  Trip& trip = trips_[s];
  const auto at = in_leaving(s);
  from_leaving_ = std::min(from_leaving_, size_t(at - leaving_.begin()));
  if (trip.is_there) {
    erase_homeward(s);
  } else {
    leaving_.insert(at, s);
    trip.is_there = true, trip.takes = t_.copy_ticks[s];
  }
  trip.kept = kept, trip.back = back, trip.is_new = true;
  insert_homeward(s);
}

void SketchLink::drop(StorageId s) {
  if (!trips_[s].is_there) return;
  const auto at = in_leaving(s);
  from_leaving_ = std::min(from_leaving_, size_t(at - leaving_.begin()));
  leaving_.erase(at), erase_homeward(s);
  trips_[s].is_there = false;
}

// All places, and when each begins, from the first clone on that came or went; returns how many
// were there before.
size_t SketchLink::list_places() {
  const size_t known = listed_ == 0 ? 0 : index_of_node_[listed_ - 1] + 1;
  size_t count = known;
  int64_t time = start_[known];
  const auto add = [&](Place place, int64_t takes) {
    places_[count] = place;
    start_[++count] = time += takes;
  };
  for (size_t i = listed_; i < t_.order.size(); ++i) {
    if (slots_.any(i)) {
      for (const NodeId n : slots_[i]) {
        index_of_clone_[n] = count;
        add(place_of_clone(int32_t(i), n), t_.ticks[n]);
      }
    }
    index_of_node_[i] = count;
    add(place_of_node(int32_t(i)), t_.in_step[t_.order[i]]);
  }
  count_ = count;
  listed_ = t_.order.size();
  return known;
}

size_t SketchLink::index_of(Place place) const {
  const int32_t what = runs_at(place);
  return what == kNodeItself ? index_of_node_[size_t(position_of(place))] : index_of_clone_[what];
}

// The last place that begins by then, which is not far from `near`.
size_t SketchLink::index_at(int64_t ticks, size_t near) const {
  near = std::min(near, count_ - 1);
  while (near > 0 && start_[near] > ticks) --near;
  while (near + 1 < count_ && start_[near + 1] <= ticks) ++near;
  return near;
}

const std::vector<StorageId>& SketchLink::settle() {
  changed_.clear();
  if (!leaving_.empty()) {
    const size_t known = list_places();
    leave(known), come_home(known);
  }
  from_leaving_ = leaving_.size(), from_homeward_ = homeward_.size();
  return changed_;
}

// Places before `known` are as they were.
void SketchLink::leave(size_t known) {
  const auto until = leaving_.begin() + std::ptrdiff_t(from_leaving_);
  const auto first = std::partition_point(leaving_.begin(), until,
                                          [&](StorageId s) { return trips_[s].gone_at < known; });
  int64_t link = first == leaving_.begin() ? 0 : trips_[*(first - 1)].gone;
  for (auto at = first; at != leaving_.end(); ++at) {
    Trip& trip = trips_[*at];
    const size_t made = index_of_node_[size_t(t_.made[*at])];
    link = std::max(link, start_[made + 1]) + trip.takes;
    if (!trip.is_new && link == trip.gone && trip.gone_at < known) continue;
    trip.gone = link, trip.gone_at = index_at(link, trip.is_new ? made : trip.gone_at);
    const Place leaves = std::max(trip.kept.end, places_[trip.gone_at]);
    if (leaves == trip.leaves) continue;
    trip.leaves = leaves;
    if (trip.is_new) continue;
    trip.is_new = true;
    from_homeward_ = std::min(from_homeward_, size_t(in_homeward(*at) - homeward_.begin()));
  }
}

void SketchLink::come_home(size_t known) {
  size_t i = known < count_ ? 0 : from_homeward_;
  int64_t link = i == 0 ? start_[count_] : trips_[homeward_[i - 1].map].called;
  for (; i < homeward_.size(); ++i) {
    const StorageId s = homeward_[i].map;
    Trip& trip = trips_[s];
    const size_t begin = index_of(homeward_[i].begin);
    link = std::min(link, start_[begin]) - trip.takes;
    const bool same = link == trip.called && trip.called_at < known && trip.next < known;
    if (!trip.is_new && same) continue;
    trip.called = link, trip.called_at = index_at(link, trip.is_new ? begin : trip.called_at);
    const PlaceSpan kept{trip.kept.begin, trip.leaves};
    trip.now_kept = kept, trip.now_back = trip.back;
    PlaceSpan &before = trip.now_kept, &after = trip.now_back;
    after.begin = std::min(after.begin, places_[trip.called_at]), trip.next = 0;
    if (after.begin <= before.end) {  // it never leaves
      trip.next = index_of(before.end) + 1;
      if (trip.next < count_ && places_[trip.next] <= after.end) {
        after.begin = places_[trip.next];
      } else {
        before.end = after.end, after = {};
      }
    }
    trip.is_new = false, changed_.push_back(s);
  }
}

}  // namespace pal
