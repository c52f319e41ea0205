// Which nodes run again and where, how long everything is held, and a sweep over that.
#include "memory/front/sketch.h"

#include <algorithm>
#include <utility>

#include "memory/passes/forms.h"
#include "memory/price/predict.h"
#include "memory/storages/lifetimes.h"
#include "memory/storages/storages.h"

namespace pal {

Sketch::Sketch(const StepView& view, std::vector<NodeId> order, const DeviceProfile& device,
               const RecomputeOptions& options)
    : view_(view),
      p_(view.program),
      order_(std::move(order)),
      ms_(predict(view.program, device).node_ms),
      copy_ms_(device.link > 0 ? 1e3 / (device.link * device.link_efficiency) : 0),
      fused_(fused_clones(view, device)) {
  const Storages storages = assign_storages(p_, {}, {.inplace = false});
  list_nodes(storages);
  list_storages(storages);
  list_bits(device, options.bits);
  const size_t values = p_.values.size(), nodes = p_.nodes.size(), count = storages.list.size();
  first_.resize(values), last_.resize(values);
  read_by_clone_.resize(count), needed_storage_.resize(count), inside_.resize(count);
  runs_before_.resize(nodes), place_.resize(nodes), clone_place_.resize(nodes);
  clones_before_.resize(nodes), place_of_.resize(nodes);
  spans_.resize(count), cloned_.resize(count);
  for (ValueId v : p_.values.ids()) {
    if (!view_.stays(v) && view_.first_use[v] != kNone) read_later_.push_back(v);
  }
  list_fixed();
}

// What nodes read and make of the maps that may be made again, and which outputs may take the bytes
// of which operands.
void Sketch::list_nodes(const Storages& storages) {
  const auto whole = [&](ValueId v) {
    return p_.value(v).spec.bytes() == storages[storages.of[v]].bytes;
  };
  in_.begin.push_back(0), out_.begin.push_back(0), pairs_.begin.push_back(0);
  for (NodeId n : p_.nodes.ids()) {
    const Node& node = p_.node(n);
    is_forward_.push_back(node.phase == Phase::forward);
    if (node.phase == Phase::forward) {
      forward_.push_back(n);
      for (ValueId v : present(node.in)) {
        if (!view_.pinned[v]) in_.items.push_back(v);
      }
      for (ValueId v : present(node.out)) {
        if (!view_.pinned[v]) out_.items.push_back(v);
      }
    }
    if (!node.op->writes_state && !node.op->shares.empty()) {
      for (const Share share : shares_of(*node.op, node.in.size())) {
        if (size_t(share.output) >= node.out.size() || size_t(share.operand) >= node.in.size()) {
          continue;
        }
        const ValueId now = node.out[share.output], old = node.in[share.operand];
        if (now == kNone || old == kNone || !whole(now) || !whole(old)) continue;
        const StorageId to = storages.of[now], from = storages.of[old];
        if (to == from || storages[to].bytes != storages[from].bytes) continue;
        if (!storages[from].is_transient() || storages[from].output) continue;
        if (!storages[to].is_transient()) continue;
        pairs_.items.push_back({to, from});
      }
    }
    in_.begin.push_back(int32_t(in_.items.size()));
    out_.begin.push_back(int32_t(out_.items.size()));
    pairs_.begin.push_back(int32_t(pairs_.items.size()));
  }
  std::reverse(forward_.begin(), forward_.end());
}

void Sketch::list_storages(const Storages& storages) {
  const size_t count = storages.list.size();
  ByNode<Place> rank(order_.size());
  for (size_t i = 0; i < order_.size(); ++i) rank[order_[i]] = Place(i);
  nodes_.assign(count, {Place(order_.size()), -1});
  made_.assign(count, -1);
  bytes_.assign(count, 0), is_open_.assign(count, 0);
  is_map_.assign(count, 0);
  ByStorage<char> closed(count, 0);
  for (NodeId n : p_.nodes.ids()) {
    const Node& node = p_.node(n);
    const auto touch = [&](ValueId v) {
      const StorageId s = storages.of[v];
      if (s == kNone) return;
      nodes_[s].begin = std::min(nodes_[s].begin, rank[n]);
      // What reads a map after the forward phase depends on the choice.
      if (view_.pinned[v] || node.phase == Phase::forward) {
        nodes_[s].end = std::max(nodes_[s].end, rank[n]);
      }
    };
    for (ValueId v : present(node.in)) touch(v);
    for (ValueId v : present(node.out)) {
      touch(v);
      if (storages.of[v] == kNone || node.phase != Phase::forward) continue;
      made_[storages.of[v]] = std::max(made_[storages.of[v]], rank[n]);
    }
  }
  for (ValueId v : p_.values.ids()) {
    const StorageId s = storages.of[v];
    if (s == kNone) continue;
    closed[s] |= view_.pinned[v] || !view_.clonable[p_.value(v).producer];
    is_map_[s] |= !view_.pinned[v];
  }
  for (StorageId s : storages.list.ids()) {
    const Storage& storage = storages[s];
    if (storage.space != Space::device) continue;
    if (!storage.is_transient()) {
      constant_ += footprint(storage);
      continue;
    }
    bytes_[s] = footprint(storage);
    if (storage.output) nodes_[s].end = Place(order_.size()) - 1;
    if (nodes_[s].begin > nodes_[s].end) bytes_[s] = 0;
    if (!is_map_[s] || closed[s]) continue;
    is_open_[s] = 1;
    open_.push_back(s);
  }
}

// What there is no choice about: alive while a node runs, and between the one before it and it.
void Sketch::list_fixed() {
  std::vector<int64_t> during(order_.size() + 1, 0), before(order_.size() + 1, 0);
  for (StorageId s : bytes_.ids()) {
    if (bytes_[s] == 0) continue;
    if (is_map_[s]) {
      maps_.push_back(s);
      continue;
    }
    const Span& span = nodes_[s];
    during[size_t(span.begin)] += bytes_[s], during[size_t(span.end) + 1] -= bytes_[s];
    if (span.begin == span.end) continue;
    before[size_t(span.begin) + 1] += bytes_[s], before[size_t(span.end) + 1] -= bytes_[s];
  }
  int64_t at = constant_, between = constant_;
  for (size_t i = 0; i < order_.size(); ++i) {
    fixed_during_.push_back(at += during[i]), fixed_before_.push_back(between += before[i]);
  }
  for (size_t i = 0; i < order_.size(); ++i) {
    const NodeId n = order_[i];
    StorageId taken = kNone, given = kNone;
    bool choice = false;
    for (const Pair* pair = pairs_.first(n); pair != pairs_.last(n); ++pair) {
      choice |= is_map_[pair->operand] || is_map_[pair->output];
    }
    if (choice) {
      sharing_.push_back(n);
      continue;
    }
    for (const Pair* pair = pairs_.first(n); pair != pairs_.last(n); ++pair) {
      if (pair->operand == taken || pair->output == given) continue;
      const Span &from = nodes_[pair->operand], &to = nodes_[pair->output];
      if (from.end != Place(i) || to.begin != Place(i) || from.begin == Place(i)) continue;
      taken = pair->operand, given = pair->output;
      fixed_during_[i] -= bytes_[taken];
    }
  }
  for (StorageId s : bytes_.ids()) {  // of the rest, places of clones do not matter
    if (bytes_[s] > 0 && !is_map_[s]) fixed_.push_back(s);
  }
}

void Sketch::list_bits(const DeviceProfile& device, bool wanted) {
  bit_bytes_.assign(bytes_.size(), 0), bit_ms_.assign(bytes_.size(), 0);
  if (!wanted) return;
  ByStorage<int32_t> members(bytes_.size(), 0);
  for (ValueId v : p_.values.ids()) {
    if (view_.storage[v] != kNone) ++members[view_.storage[v]];
  }
  for (ValueId v : p_.values.ids()) {
    if (view_.stays(v) || view_.first_use[v] == kNone) continue;
    const StorageId s = view_.storage[v];
    const TensorSpec& spec = p_.value(v).spec;
    if (members[s] != 1 || spec.dtype == DType::bit || spec.layout ||
        bit_bytes(spec) >= spec.bytes() || !asked_of(p_, view_.readers, v).bits_will_do()) {
      continue;
    }
    bit_bytes_[s] = align_up(bit_bytes(spec));
    bit_ms_[s] = time_ms({.bytes = double(spec.bytes() + bit_bytes(spec))}, device);
  }
}

Fates Sketch::nothing() const {
  Fates fates(bytes_.size(), Fate::keep);
  for (const StorageId s : open_) fates[s] = Fate::again;
  for (ValueId v : p_.values.ids()) {
    if (!view_.stays(v) && view_.first_use[v] != kNone) fates[view_.storage[v]] = Fate::keep;
  }
  return fates;
}

// What gradients need, what runs again for that, and before which gradient.
void Sketch::find_clones(const Fates& fates) {
  std::fill(read_by_clone_.begin(), read_by_clone_.end(), 0);
  std::fill(needed_storage_.begin(), needed_storage_.end(), 0);
  std::fill(clones_before_.begin(), clones_before_.end(), 0);
  std::copy(view_.first_use.begin(), view_.first_use.end(), first_.begin());
  std::copy(view_.last_use.begin(), view_.last_use.end(), last_.begin());
  clones_.clear(), ms_added_ = 0;
  for (const NodeId n : forward_) {
    runs_before_[n] = kNone;
    NodeId first = kNone, last = kNone;
    for (const ValueId* v = out_.first(n); v != out_.last(n); ++v) {
      if (first_[*v] == kNone) continue;
      const StorageId s = view_.storage[*v];
      needed_storage_[s] = 1;
      if (fates[s] != Fate::again) continue;
      first = first == kNone ? first_[*v] : std::min(first, first_[*v]);
      last = std::max(last, last_[*v]);
    }
    if (first == kNone) continue;
    runs_before_[n] = first, ++clones_before_[first];
    clones_.push_back(n);
    ms_added_ += ms_[n];
    if (last - first > kClonesFar && view_.from_pinned(n)) ms_added_ += ms_[n];
    for (const ValueId* v = in_.first(n); v != in_.last(n); ++v) {
      NodeId &f = first_[*v], &l = last_[*v];
      f = f == kNone ? first : std::min(f, first);
      l = std::max(l, first);
      read_by_clone_[view_.storage[*v]] = 1;
    }
  }
  std::reverse(clones_.begin(), clones_.end());
}

// Of the clones, those that are one kernel.
void Sketch::find_fused() {
  std::fill(inside_.begin(), inside_.end(), 0);
  for (const FusedClones& one : fused_) {
    const auto within = [&](NodeId n) {
      const auto& nodes = is_forward_[n] ? one.nodes : one.gradients;
      return std::find(nodes.begin(), nodes.end(), n) != nodes.end();
    };
    const auto is_inside = [&](ValueId v) {
      return std::all_of(view_.readers[v].begin(), view_.readers[v].end(), [&](NodeId n) {
        return within(n) || (is_forward_[n] && runs_before_[n] == kNone);
      });
    };
    if (!std::all_of(one.nodes.begin(), one.nodes.end(),
                     [&](NodeId n) { return runs_before_[n] != kNone; }) ||
        !std::all_of(one.interior.begin(), one.interior.end(), is_inside)) {
      continue;
    }
    ms_added_ -= one.saved_ms;
    for (ValueId v : one.interior) inside_[view_.storage[v]] = 1;
  }
}

void Sketch::place_clones() {
  Place before = 0;
  for (size_t i = 0; i < order_.size(); ++i) {
    Place& clones = clones_before_[order_[i]];
    const Place first = Place(i) + before;
    before += std::exchange(clones, first);  // from now on: where the next one goes
    place_[order_[i]] = place_of_[i] = Place(i) + before;
  }
  for (const NodeId n : clones_) clone_place_[n] = clones_before_[runs_before_[n]]++;
}

void Sketch::hold(Place begin, Place end, int64_t bytes) {
  alive_[size_t(begin)] += bytes, alive_[size_t(end) + 1] -= bytes;
}

void Sketch::find_spans(const Fates& fates) {
  const Place end = Place(p_.nodes.size() + clones_.size());
  for (const StorageId s : maps_) {
    cloned_[s] = {end, -1};
    spans_[s] = {place_of(nodes_[s].begin), place_of(nodes_[s].end)};
  }
  for (const StorageId s : fixed_) {
    spans_[s] = {place_of(nodes_[s].begin), place_of(nodes_[s].end)};
  }
  const auto touch = [](Span& span, Place at) {
    span.begin = std::min(span.begin, at), span.end = std::max(span.end, at);
  };
  for (const NodeId n : clones_) {
    const Place at = clone_place_[n];
    for (const ValueId* v = in_.first(n); v != in_.last(n); ++v) {
      const StorageId s = view_.storage[*v];
      touch(fates[s] == Fate::keep ? spans_[s] : cloned_[s], at);
    }
    for (const ValueId* v = out_.first(n); v != out_.last(n); ++v) {
      const StorageId s = view_.storage[*v];
      if (first_[*v] != kNone && fates[s] == Fate::again) touch(cloned_[s], at);
    }
  }
  for (const ValueId v : read_later_) {
    const StorageId s = view_.storage[v];
    if (has_bits(s, fates)) continue;
    Span& span = fates[s] == Fate::keep ? spans_[s] : cloned_[s];
    touch(span, place_[view_.first_use[v]]), touch(span, place_[view_.last_use[v]]);
  }
}

bool Sketch::has_bits(StorageId s, const Fates& fates) const {
  return bit_bytes_[s] > 0 && fates[s] != Fate::again && !read_by_clone_[s];
}

Sketch::Place Sketch::place_at(double ms) const {
  return Place(std::upper_bound(start_.begin(), start_.end(), ms) - start_.begin()) - 1;
}

// From when to when copies are away.
void Sketch::send_away(const Fates& fates) {
  away_.clear();
  for (const StorageId s : maps_) {
    if (fates[s] == Fate::away && cloned_[s].end >= 0) away_.push_back(s);
  }
  if (away_.empty()) return;
  start_.assign(p_.nodes.size() + clones_.size() + 1, 0);
  for (const NodeId n : order_) start_[size_t(place_[n]) + 1] = ms_[n];
  for (const NodeId n : clones_) start_[size_t(clone_place_[n]) + 1] = ms_[n];
  for (size_t i = 1; i < start_.size(); ++i) start_[i] += start_[i - 1];
  std::sort(away_.begin(), away_.end(), [&](StorageId a, StorageId b) {
    return made_[a] != made_[b] ? made_[a] < made_[b] : a < b;
  });
  double link = 0;
  for (const StorageId s : away_) {
    link = std::max(link, start_[size_t(place_of(made_[s])) + 1]) + copy_ms_ * double(bytes_[s]);
    spans_[s].end = std::max(spans_[s].end, place_at(link));
  }
  std::sort(away_.begin(), away_.end(), [&](StorageId a, StorageId b) {
    return cloned_[a].begin != cloned_[b].begin ? cloned_[a].begin > cloned_[b].begin : a < b;
  });
  link = start_.back();
  for (const StorageId s : away_) {
    link = std::min(link, start_[size_t(cloned_[s].begin)]) - copy_ms_ * double(bytes_[s]);
    cloned_[s].begin = std::min(cloned_[s].begin, std::max(place_at(link), 0));
    if (cloned_[s].begin > spans_[s].end) continue;
    cloned_[s].begin = spans_[s].end + 1;  // it never leaves
    if (cloned_[s].end < cloned_[s].begin) spans_[s].end = cloned_[s].end, cloned_[s] = {0, -1};
  }
}

// The bytes of an operand that dies there, which an output may take.
void Sketch::share(NodeId n, Place at, bool clone, const Fates& fates) {
  int32_t taken = -1, given = -1;
  const bool later = clone || !is_forward_[n];
  for (const Pair* pair = pairs_.first(n); pair != pairs_.last(n); ++pair) {
    if (pair->operand == taken || pair->output == given) continue;
    const auto span = [&](StorageId s) -> const Span& {
      return later && is_open_[s] && fates[s] != Fate::keep ? cloned_[s] : spans_[s];
    };
    if (span(pair->operand).end != at || span(pair->output).begin != at) continue;
    if (span(pair->operand).begin == at || (later && inside_[pair->operand])) continue;
    taken = pair->operand, given = pair->output;
    hold(at, at, -bytes_[pair->operand]);
  }
}

Sketch::Count Sketch::count(const Fates& fates, int64_t limit) {
  find_clones(fates);
  find_fused();
  place_clones();
  find_spans(fates);
  if (has_link()) send_away(fates);
  const size_t places = p_.nodes.size() + clones_.size();
  alive_.assign(places + 1, 0);
  Count out{.ms = ms_added_};
  for (const StorageId s : maps_) {
    if (spans_[s].end >= spans_[s].begin) hold(spans_[s].begin, spans_[s].end, bytes_[s]);
    if (!inside_[s] && cloned_[s].end >= cloned_[s].begin) {
      hold(cloned_[s].begin, cloned_[s].end, bytes_[s]);
    }
  }
  for (const ValueId v : read_later_) {
    const StorageId s = view_.storage[v];
    if (!has_bits(s, fates)) continue;
    hold(spans_[s].begin, place_[view_.last_use[v]], bit_bytes_[s]);
    out.ms += bit_ms_[s];
  }
  for (const NodeId n : sharing_) share(n, place_[n], false, fates);
  for (const NodeId n : clones_) share(n, clone_place_[n], true, fates);
  above_.resize(places + 1);
  int64_t choice = 0;
  double over = 0;
  size_t place = 0;
  const auto reach = [&](int64_t fixed) {
    choice += alive_[place];
    const int64_t alive = choice + fixed;
    out.bytes = std::max(out.bytes, alive);
    if (alive > limit) over += double(alive - limit);
    above_[++place] = over;
  };
  above_[0] = 0;
  for (size_t i = 0; i < order_.size(); ++i) {
    while (place < size_t(place_of_[i])) reach(fixed_before_[i]);
    reach(fixed_during_[i]);
  }
  out.over = over;
  return out;
}

bool Sketch::waits_above(StorageId s) const {
  const Span& kept = spans_[s];
  const Place begin = place_of(nodes_[s].end) + 1;
  return kept.end > begin && above_[size_t(kept.end)] > above_[size_t(begin)];
}

Choice Sketch::choice_of(const Fates& fates) const {
  Choice choice(p_.values.size(), 0);
  for (ValueId v : p_.values.ids()) {
    const StorageId s = view_.storage[v];
    choice[v] = s != kNone && is_open_[s] && fates[s] == Fate::again && !view_.pinned[v];
  }
  return choice;
}

std::vector<ValueId> Sketch::away_of(const Fates& fates) const {
  std::vector<ValueId> values;
  for (ValueId v : p_.values.ids()) {
    const StorageId s = view_.storage[v];
    if (s != kNone && fates[s] == Fate::away && !view_.pinned[v]) values.push_back(v);
  }
  return values;
}

}  // namespace pal
