// What changes with a fate: which clones run and where, how long everything is held, and sums of
// it.
#include "memory/front/sketch.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace pal {

Sketch::Sketch(const StepView& view, std::vector<NodeId> order, const DeviceProfile& device,
               const RecomputeOptions& options)
    : t_(view, std::move(order), device, options), p_(view.program) {
  const size_t nodes = p_.nodes.size(), count = t_.bytes.size();
  fates_.assign(count, Fate::keep), spans_.resize(count);
  run_.resize(nodes), of_clone_.resize(nodes), is_queued_.assign(nodes, 0);
  first_ = view.first_use, last_ = view.last_use;
  clone_reads_.assign(count, 0), inside_.assign(count, 0), is_marked_.assign(count, 0);
  for (const SketchTable::Fused& one : t_.fused) missing_.push_back(int32_t(one.run.size()));
  slots_.resize(nodes), has_clones_.assign(nodes, 0), begins_.resize(nodes + 1);
  index_of_node_.assign(nodes, 0), index_of_clone_.assign(nodes, 0);
  ends_in_slot_.assign(nodes, 0), shared_.assign(nodes, 0), shares_anew_.assign(nodes, 0);
  for (StorageId s : t_.bytes.ids()) {
    if (t_.is_map[s]) mark(s);
  }
}

Fates Sketch::nothing() const {
  Fates fates(t_.bytes.size(), Fate::keep);
  for (const StorageId s : t_.open) {
    fates[s] = t_.gradients[s].is_empty() ? Fate::again : Fate::keep;
  }
  return fates;
}

void Sketch::mark(StorageId s) {
  if (!std::exchange(is_marked_[s], 1)) marked_.push_back(s);
}

void Sketch::mark_share(NodeId n) {
  if (!std::exchange(shares_anew_[n], 1)) sharing_.push_back(n);
}

void Sketch::queue(NodeId n) {
  if (std::exchange(is_queued_[n], 1)) return;
  queue_.push_back(n);
  std::push_heap(queue_.begin(), queue_.end());
}

// The node runs again before the first gradient that needs what is to be made again of its maps.
void Sketch::look_at(NodeId n) {
  NodeId first = kNone, last = kNone;
  for (const ValueId v : t_.out[n]) {
    if (first_[v] == kNone || fates_[t_.view.storage[v]] != Fate::again) continue;
    first = first == kNone ? first_[v] : std::min(first, first_[v]);
    last = std::max(last, last_[v]);
  }
  const bool twice = first != kNone && last - first > kClonesFar && t_.view.from_pinned(n);
  const Run now{first, twice};
  if (now != run_[n]) set_run(n, now);
}

void Sketch::set_run(NodeId n, Run now) {
  const Run was = std::exchange(run_[n], now);
  ticks_ += t_.ticks[n] * ((now.before != kNone) + now.twice - (was.before != kNone) - was.twice);
  if (now.before == was.before) return;
  if (was.before != kNone) {
    const auto at = size_t(t_.position[was.before]);
    listed_ = std::min(listed_, at);
    slots_[at].erase(std::lower_bound(slots_[at].begin(), slots_[at].end(), n));
    has_clones_[at] = !slots_[at].empty();
  }
  if (now.before != kNone) {
    const auto at = size_t(t_.position[now.before]);
    listed_ = std::min(listed_, at);
    slots_[at].insert(std::lower_bound(slots_[at].begin(), slots_[at].end(), n), n);
    has_clones_[at] = 1;
  }
  const int more = (now.before != kNone) - (was.before != kNone);
  if (more != 0) count_fused(n, more > 0);
  mark_share(n);
  for (const ValueId v : t_.in[n]) {
    clone_reads_[t_.view.storage[v]] += more;
    mark(t_.view.storage[v]);
    look_at(v);
  }
  for (const ValueId v : t_.out[n]) mark(t_.view.storage[v]);
}

void Sketch::look_at(ValueId v) {
  NodeId first = t_.view.first_use[v], last = t_.view.last_use[v];
  for (const NodeId n : t_.readers[v]) {
    const NodeId before = run_[n].before;
    if (before == kNone) continue;
    first = first == kNone ? before : std::min(first, before);
    last = std::max(last, before);
  }
  if (first == first_[v] && last == last_[v]) return;
  if ((first == kNone) != (first_[v] == kNone)) mark(t_.view.storage[v]);
  first_[v] = first, last_[v] = last;
  queue(p_.value(v).producer);
}

// A node runs again now, or no longer.
void Sketch::count_fused(NodeId n, bool runs) {
  for (const SketchTable::OfFused& part : t_.fused_of[n]) {
    int32_t& missing = missing_[size_t(part.fused)];
    const bool was = missing == 0;
    missing += part.runs == runs ? -1 : 1;
    if (was == (missing == 0)) continue;
    const SketchTable::Fused& one = t_.fused[size_t(part.fused)];
    ticks_ += was ? one.saved : -one.saved;
    for (const StorageId s : one.inside) {
      inside_[s] += was ? -1 : 1;
      mark(s);
    }
  }
}

Sketch::Spans Sketch::spans_of(StorageId s) const {
  Spans spans{.kept = t_.nodes[s], .cloned = {}, .bits = {}, .inside = inside_[s] > 0};
  const Fate fate = fates_[s];
  PlaceSpan& later = fate == Fate::keep ? spans.kept : spans.cloned;
  for (const NodeId n : t_.read_by[s]) {
    if (run_[n].before != kNone) later.touch(clone_place(n));
  }
  if (fate == Fate::again) {
    for (const SketchTable::Made& made : t_.made_by[s]) {
      if (run_[made.node].before == kNone || first_[made.value] == kNone) continue;
      spans.cloned.touch(clone_place(made.node));
    }
  }
  const PlaceSpan& gradients = t_.gradients[s];
  if (t_.bit_bytes[s] > 0 && fate != Fate::again && clone_reads_[s] == 0) {
    spans.bits = {spans.kept.begin, gradients.end};
  } else if (!gradients.is_empty()) {
    later.touch(gradients.begin), later.touch(gradients.end);
  }
  return spans;
}

void Sketch::hold(StorageId s, const Spans& spans, int64_t sign) {
  if (t_.bytes[s] == 0) return;
  if (!spans.kept.is_empty()) hold(spans.kept, sign * t_.bytes[s]);
  if (!spans.inside && !spans.cloned.is_empty()) hold(spans.cloned, sign * t_.bytes[s]);
  if (spans.bits.is_empty()) return;
  hold(spans.bits, sign * t_.bit_bytes[s]);
  ticks_ += sign * t_.bit_ticks[s];
}

void Sketch::hold(const PlaceSpan& span, int64_t bytes) {
  const int32_t begin = position_of(span.begin), end = position_of(span.end);
  const bool in_slot = runs_at(span.end) != kNodeItself;
  const auto after = size_t(in_slot ? end : end + 1);  // the first node without it
  if (size_t(begin) < after) begins_[size_t(begin)].node += bytes, begins_[after].node -= bytes;
  if (size_t(begin) + 1 < after) {
    begins_[size_t(begin) + 1].slot += bytes, begins_[after].slot -= bytes;
  }
  if (runs_at(span.begin) != kNodeItself) of_clone_[runs_at(span.begin)].begins += bytes;
  if (!in_slot) return;
  of_clone_[runs_at(span.end)].ends += bytes;
  if (begin < end) ends_in_slot_[size_t(end)] += bytes;
}

void Sketch::settle(StorageId s, const Spans& now) {
  if (now == spans_[s]) return;
  hold(s, spans_[s], -1), hold(s, now, 1);
  spans_[s] = now;
  for (const NodeId n : t_.shared_by[s]) mark_share(n);
}

// The bytes of operands that die there, which outputs may take.
int64_t Sketch::shared_at(NodeId n, Place here, bool later) const {
  int64_t bytes = 0;
  StorageId taken = kNone, given = kNone;
  const auto span = [&](StorageId s) -> const PlaceSpan& {
    if (!t_.is_map[s]) return t_.nodes[s];
    return later && t_.is_open[s] && fates_[s] != Fate::keep ? spans_[s].cloned : spans_[s].kept;
  };
  for (const SketchTable::Pair& pair : t_.pairs[n]) {
    if (pair.operand == taken || pair.output == given) continue;
    const PlaceSpan &from = span(pair.operand), &to = span(pair.output);
    if (from.end != here || to.begin != here || from.begin == here) continue;
    if (later && spans_[pair.operand].inside) continue;
    taken = pair.operand, given = pair.output;
    bytes += t_.bytes[taken];
  }
  return bytes;
}

// All places, and when each begins, from the first clone on that came or went.
void Sketch::list_places() {
  const size_t known = listed_ == 0 ? 0 : index_of_node_[listed_ - 1] + 1;
  places_.resize(known), start_.resize(known + 1);
  for (size_t i = listed_; i < t_.order.size(); ++i) {
    for (const NodeId n : slots_[i]) {
      index_of_clone_[n] = places_.size(), places_.push_back(place_of_clone(int32_t(i), n));
      start_.push_back(start_.back() + t_.ticks[n]);
    }
    index_of_node_[i] = places_.size(), places_.push_back(place_of_node(int32_t(i)));
    start_.push_back(start_.back() + t_.ticks[t_.order[i]]);
  }
  listed_ = t_.order.size();
}

size_t Sketch::index_of(Place place) const {
  const int32_t what = runs_at(place);
  return what == kNodeItself ? index_of_node_[size_t(position_of(place))] : index_of_clone_[what];
}

// The last place that begins by then, which is not far from `near`.
size_t Sketch::index_at(int64_t ticks, size_t near) const {
  while (near > 0 && start_[near] > ticks) --near;
  while (near + 1 < places_.size() && start_[near + 1] <= ticks) ++near;
  return near;
}

// From when to when copies are away.
void Sketch::send_away() {
  if (away_.empty()) return;
  trips_.clear(), homeward_.clear();
  for (const StorageId s : away_) {
    const Spans spans = spans_of(s);
    if (spans.cloned.is_empty()) {
      settle(s, spans);
      continue;
    }
    homeward_.emplace_back(-spans.cloned.begin, trips_.size());
    trips_.push_back({s, spans, int64_t(t_.copy_ticks * double(t_.bytes[s]))});
  }
  if (trips_.empty()) return;
  list_places();
  int64_t link = 0;
  size_t at = 0;  // where the link is
  for (Trip& trip : trips_) {
    const size_t made = index_of_node_[size_t(t_.made[trip.map])];
    link = std::max(link, start_[made + 1]) + trip.takes;
    at = index_at(link, at);
    trip.spans.kept.end = std::max(trip.spans.kept.end, places_[at]);
  }
  std::sort(homeward_.begin(), homeward_.end());  // the last one first
  link = start_.back(), at = places_.size() - 1;
  for (const auto& [begin, number] : homeward_) {
    Trip& trip = trips_[number];
    PlaceSpan &kept = trip.spans.kept, &back = trip.spans.cloned;
    link = std::min(link, start_[index_of(back.begin)]) - trip.takes;
    at = index_at(link, at);
    back.begin = std::min(back.begin, places_[at]);
    if (back.begin <= kept.end) {  // it never leaves
      const size_t next = index_of(kept.end) + 1;
      if (next < places_.size() && places_[next] <= back.end) {
        back.begin = places_[next];
      } else {
        kept.end = back.end, back = {};
      }
    }
    settle(trip.map, trip.spans);
  }
}

// From the fates that were counted last to these.
void Sketch::change_to(const Fates& fates) {
  constexpr size_t kBlock = sizeof(uint64_t);
  const auto change = [&](StorageId s) {
    if (fates[s] == fates_[s]) return;
    if (fates_[s] == Fate::away) std::erase(away_, s);
    if (fates[s] == Fate::away) {
      const auto leaves_before = [&](StorageId a, StorageId b) {
        return t_.made[a] != t_.made[b] ? t_.made[a] < t_.made[b] : a < b;
      };
      away_.insert(std::lower_bound(away_.begin(), away_.end(), s, leaves_before), s);
    }
    fates_[s] = fates[s];
    mark(s);
    for (const SketchTable::Made& made : t_.made_by[s]) queue(made.node);
    for (const NodeId n : t_.shared_by[s]) mark_share(n);
  };
  for (size_t i = 0; i < fates.size(); i += kBlock) {
    const size_t count = std::min(kBlock, fates.size() - i);
    if (std::memcmp(fates.data() + i, fates_.data() + i, count) == 0) continue;
    for (size_t k = i; k < i + count; ++k) change(StorageId(int32_t(k)));
  }
  while (!queue_.empty()) {  // the last one first
    std::pop_heap(queue_.begin(), queue_.end());
    const NodeId n = queue_.back();
    queue_.pop_back();
    is_queued_[n] = 0;
    look_at(n);
  }
  for (const StorageId s : marked_) {
    is_marked_[s] = 0;
    if (fates_[s] != Fate::away) settle(s, spans_of(s));
  }
  marked_.clear();
  send_away();
  for (const NodeId n : sharing_) {
    shares_anew_[n] = 0;
    const int32_t at = t_.position[n];
    if (t_.shares[size_t(n)]) {
      shared_[size_t(at)] = shared_at(n, place_of_node(at), !t_.is_forward[n]);
    }
    of_clone_[n].shared = run_[n].before == kNone ? 0 : shared_at(n, clone_place(n), true);
  }
  sharing_.clear();
}

template <bool kKeepsSums> void Sketch::sweep(int64_t limit) {
  int64_t now = 0, through = 0, most = 0, over = 0;
  const auto reach = [&](int64_t alive) {
    most = std::max(most, alive);
    over += std::max<int64_t>(alive - limit, 0);
  };
  for (size_t i = 0; i < t_.order.size(); ++i) {
    now += begins_[i].node, through += begins_[i].slot;
    if (has_clones_[i]) {
      int64_t alive = through + t_.before[i] + ends_in_slot_[i];
      for (const NodeId n : slots_[i]) {
        const OfClone& clone = of_clone_[n];
        alive += clone.begins;
        if constexpr (kKeepsSums) above_clone_[n] = over;
        reach(alive - clone.shared);
        alive -= clone.ends;
      }
    }
    if constexpr (kKeepsSums) above_node_[i] = over;
    reach(now + t_.during[i] - shared_[i]);
  }
  now_ = {.bytes = most, .over = double(over), .ms = double(ticks_) / kSketchTicks};
}

Sketch::Count Sketch::count(const Fates& fates, int64_t limit) {
  change_to(fates);
  limit_ = limit, has_sums_ = false;
  sweep<false>(limit);
  return now_;
}

bool Sketch::is_needed(StorageId s) const {
  const auto made = t_.made_by[s];
  return std::any_of(made.begin(), made.end(),
                     [&](const SketchTable::Made& one) { return first_[one.value] != kNone; });
}

bool Sketch::waits_above(StorageId s) {
  const Place made = t_.nodes[s].end, until = spans_[s].kept.end;
  if (until <= made) return false;
  if (!std::exchange(has_sums_, true)) {
    above_node_.resize(t_.order.size()), above_clone_.resize(run_.size());
    sweep<true>(limit_);
  }
  const auto next = size_t(position_of(made)) + 1;
  const int64_t before = has_clones_[next] ? above_clone_[slots_[next].front()] : above_node_[next];
  const int32_t what = runs_at(until);
  const int64_t after =
      what == kNodeItself ? above_node_[size_t(position_of(until))] : above_clone_[what];
  return after > before;
}

Choice Sketch::choice_of(const Fates& fates) const {
  Choice choice(p_.values.size(), 0);
  for (ValueId v : p_.values.ids()) {
    const StorageId s = t_.view.storage[v];
    choice[v] = s != kNone && t_.is_open[s] && fates[s] == Fate::again && !t_.view.pinned[v];
  }
  return choice;
}

std::vector<ValueId> Sketch::away_of(const Fates& fates) const {
  std::vector<ValueId> values;
  for (ValueId v : p_.values.ids()) {
    const StorageId s = t_.view.storage[v];
    if (s != kNone && fates[s] == Fate::away && !t_.view.pinned[v]) values.push_back(v);
  }
  return values;
}

}  // namespace pal
