// What changes with a fate: which clones run and where, and how long everything is held.
#include "memory/front/sketch.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace pal {
namespace {

// Most fates are as they were: so many are compared at once.
constexpr size_t kFatesAtOnce = 64;

bool same_fates(const Fate* a, const Fate* b) {
  uint64_t differ = 0;
  for (size_t i = 0; i < kFatesAtOnce; i += sizeof(uint64_t)) {
    uint64_t here = 0, there = 0;
    std::memcpy(&here, a + i, sizeof here), std::memcpy(&there, b + i, sizeof there);
    differ |= here ^ there;
  }
  return differ == 0;
}

}  // namespace

Sketch::Sketch(const StepView& view, std::vector<NodeId> order, const DeviceProfile& device,
               const SketchPasses& passes)
    : t_(view, std::move(order), device, passes),
      p_(view.program),
      slots_(p_.nodes.size()),
      sums_(t_, slots_),
      link_(t_, slots_) {
  const size_t nodes = p_.nodes.size(), count = t_.bytes.size();
  fates_.assign(count, Fate::keep), spans_.resize(count), sent_.resize(count);
  run_.resize(nodes), is_queued_.assign(nodes, 0), shares_anew_.assign(nodes, 0);
  first_ = view.first_use, last_ = view.last_use;
  clone_reads_.assign(count, 0), inside_.assign(count, 0), is_marked_.assign(count, 0);
  for (const SketchTable::Fused& one : t_.fused) missing_.push_back(int32_t(one.run.size()));
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
  const auto changed = [&](NodeId before) {
    sums_.change_slot(t_.position[before]), link_.change_slot(t_.position[before]);
  };
  if (was.before != kNone) {
    slots_.erase(size_t(t_.position[was.before]), n);
    changed(was.before);
  }
  if (now.before != kNone) {
    slots_.insert(size_t(t_.position[now.before]), n);
    changed(now.before);
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

void Sketch::hold(const PlaceSpan& was, const PlaceSpan& now, int64_t bytes) {
  if (was == now) return;
  if (!was.is_empty()) sums_.hold(was, -bytes);
  if (!now.is_empty()) sums_.hold(now, bytes);
}

void Sketch::settle(StorageId s, const Spans& now) {
  const Spans was = spans_[s];
  if (now == was) return;
  spans_[s] = now;
  for (const NodeId n : t_.shared_by[s]) mark_share(n);
  const int64_t bytes = t_.bytes[s];
  if (bytes == 0) return;
  const auto cloned = [](const Spans& spans) { return spans.inside ? PlaceSpan() : spans.cloned; };
  hold(was.kept, now.kept, bytes);
  hold(cloned(was), cloned(now), bytes);
  hold(was.bits, now.bits, t_.bit_bytes[s]);
  ticks_ += t_.bit_ticks[s] * (was.bits.is_empty() - now.bits.is_empty());
}

// Maps whose spans may be others: those that go away as the link has time for them.
void Sketch::settle_marked() {
  for (const StorageId s : marked_) {
    is_marked_[s] = 0;
    const Spans spans = spans_of(s);
    if (fates_[s] == Fate::away && !spans.cloned.is_empty()) {
      sent_[s] = spans;
      link_.send(s, spans.kept, spans.cloned);
    } else {
      link_.drop(s);
      settle(s, spans);
    }
  }
  marked_.clear();
  for (const StorageId s : link_.settle()) {
    Spans spans = sent_[s];
    spans.kept = link_.kept(s), spans.cloned = link_.back(s);
    settle(s, spans);
  }
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

// What outputs take of operands, where that may be other than it was.
void Sketch::share_anew() {
  for (const NodeId n : sharing_) {
    shares_anew_[n] = 0;
    const int32_t at = t_.position[n];
    if (t_.shares[n]) {
      sums_.share(at, shared_at(n, place_of_node(at), !t_.is_forward[n]));
    }
    const NodeId before = run_[n].before;
    if (before == kNone) {
      sums_.share_clone(n, at, 0);
    } else {
      sums_.share_clone(n, t_.position[before], shared_at(n, clone_place(n), true));
    }
  }
  sharing_.clear();
}

// From the fates that were counted last to these.
void Sketch::change_to(const Fates& fates) {
  const auto change = [&](StorageId s) {
    if (fates[s] == fates_[s]) return;
    fates_[s] = fates[s];
    mark(s);
    for (const SketchTable::Made& made : t_.made_by[s]) queue(made.node);
    for (const NodeId n : t_.shared_by[s]) mark_share(n);
  };
  for (size_t i = 0; i < fates.size(); i += kFatesAtOnce) {
    const size_t count = std::min(kFatesAtOnce, fates.size() - i);
    if (count == kFatesAtOnce && same_fates(&fates[StorageId(i)], &fates_[StorageId(i)])) continue;
    for (size_t k = i; k < i + count; ++k) change(StorageId(int32_t(k)));
  }
  while (!queue_.empty()) {  // the last one first
    std::pop_heap(queue_.begin(), queue_.end());
    const NodeId n = queue_.back();
    queue_.pop_back();
    is_queued_[n] = 0;
    look_at(n);
  }
  settle_marked();
  share_anew();
}

Sketch::Count Sketch::count(const Fates& fates, int64_t limit) {
  change_to(fates);
  const auto [most, over] = sums_.count(limit);
  return {.bytes = most, .over = double(over), .ms = double(ticks_) / kSketchTicks};
}

bool Sketch::is_needed(StorageId s) const {
  const auto made = t_.made_by[s];
  return std::any_of(made.begin(), made.end(),
                     [&](const SketchTable::Made& one) { return first_[one.value] != kNone; });
}

bool Sketch::waits_above(StorageId s) {
  const Place made = t_.nodes[s].end, until = spans_[s].kept.end;
  if (until <= made) return false;
  return sums_.any_above(position_of(made) + 1, until);
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
