// Taking, releasing, waiting, moving aside.
#include "memory/dynamic/slab.h"

#include <algorithm>
#include <limits>
#include <string>

#include "core/error.h"
#include "core/text.h"
#include "memory/storages/storages.h"

namespace pal {

Slab::Slab(const StepFacts& facts, const DynamicOptions& options, Ledger& ledger, int64_t bytes,
           int64_t host_bytes, Decisions& out)
    : f_(facts),
      delta_(options.manager == Manager::delta),
      at_(ledger),
      out_(out),
      pieces_(bytes / kAlignment * kAlignment),
      host_(host_bytes / kAlignment * kAlignment),
      scores_(facts, options) {}

void Slab::take(StorageId s) {
  settle();
  int64_t place = 0;
  while ((place = pieces_.take(f_.bytes[s])) < 0) make_room(s);
  Whereabouts& at = at_[s];
  at.place = place, at.where = Where::device, at.made = 0;
  at.used_ms = clock, at.arrives_ms = 0, at.prefetched = false;
  there_[place] = s;
  used_ += f_.bytes[s];
  scores_.came(s, clock);
  out_.actions.push_back({.kind = Action::Kind::take, .storage = s, .place = place});
}

void Slab::give_back(StorageId s) {
  pieces_.give_back(at_[s].place, f_.bytes[s]);
  there_.erase(at_[s].place);
}

// One step towards a piece that is large enough.
void Slab::make_room(StorageId s) {
  const int64_t bytes = f_.bytes[s];
  if (wait_for_leaving(bytes)) return;
  if (pieces_.free_bytes() + leaving_bytes_ < bytes) {
    if (release_one()) return;
    if (leaving_.empty()) refuse(s);
    return wait();
  }
  const double useless = double(pieces_.free_bytes()) / double(pieces_.bytes());
  out_.stats.fragmentation = std::max(out_.stats.fragmentation, useless);
  if (release_window(bytes)) return;
  if (!leaving_.empty()) return wait();
  if (!release_one() && !compact(bytes)) refuse(s);
}

// Bytes whose copies are done by now are free.
void Slab::settle() {
  while (!leaving_.empty() && leaving_.begin()->first <= clock) {
    const StorageId s = leaving_.begin()->second;
    leaving_.erase(leaving_.begin());
    leaving_bytes_ -= f_.bytes[s];
    give_back(s);
    put_away(s);
  }
}

void Slab::wait() {
  clock = std::max(clock, leaving_.begin()->first);
  settle();
}

// If what is on its way out makes, with what is free, a piece that is large enough.
bool Slab::wait_for_leaving(int64_t bytes) {
  if (leaving_.empty() || pieces_.free_bytes() + leaving_bytes_ < bytes) return false;
  int64_t begin = 0, most = 0;
  for (auto [place, s] : there_) {
    if (at_[s].where == Where::leaving) continue;
    most = std::max(most, place - begin);
    if (most >= bytes) break;
    begin = place + f_.bytes[s];
  }
  if (std::max(most, pieces_.bytes() - begin) < bytes) return false;
  wait();
  return true;
}

void Slab::reload(StorageId s) {
  Whereabouts& at = at_[s];
  no_longer_away(s);
  const size_t made = at.made;
  take(s);
  at.made = made;
  in_clock_ = std::max({in_clock_, clock, at.copied_ms}) + f_.copy_ms(s);
  at.arrives_ms = in_clock_;
  ++out_.stats.reloads;
  at.offload = kNotThere;
  out_.actions.push_back({.kind = Action::Kind::reload, .storage = s});
}

// On its way out, and needed again.
void Slab::stay(StorageId s) {
  Whereabouts& at = at_[s];
  leaving_.erase({at.copied_ms, s});
  leaving_bytes_ -= f_.bytes[s];
  used_ += f_.bytes[s];
  at.where = Where::device;
  scores_.came(s, clock);
}

void Slab::used(StorageId s) {
  at_[s].used_ms = clock;
  if (at_[s].where == Where::device) scores_.used(s, clock);
}

void Slab::forget(StorageId s, bool remakable) {
  Whereabouts& at = at_[s];
  if (at.where == Where::leaving) stay(s);
  if (at.where == Where::host) no_longer_away(s);
  if (at.where == Where::device) {
    used_ -= f_.bytes[s];
    give_back(s);
    scores_.left(s, remakable);
  }
  drop_copy(s);
  at.where = Where::nowhere;
}

// What is released, and how.

bool Slab::is_candidate(StorageId s) const {
  const Whereabouts& at = at_[s];
  return at.where == Where::device && at.pins == 0 && (at_.can_remake(s) || can_offload(s));
}

bool Slab::release_one() {
  const StorageId s = scores_.lowest(clock, [&](StorageId t) { return is_candidate(t); });
  if (s == kNone) return false;
  release(s);
  return true;
}

// DELTA, algorithm 3. Equation 4 is c_r / c_s: bytes and time since the last use cancel.
bool Slab::is_evicted_rather(StorageId s) const {
  if (!can_offload(s)) return true;
  if (!at_.can_remake(s)) return false;
  const double copy = ms_of_offload(s);
  return at_.ms_again(s, copy) <= copy;
}

void Slab::release(StorageId s) {
  Whereabouts& at = at_[s];
  used_ -= f_.bytes[s];
  at.prefetched = false;
  clock = std::max(clock, at.arrives_ms);  // who takes the bytes waits until it is there
  if (is_evicted_rather(s)) {
    drop_copy(s);
    give_back(s);
    at.where = Where::nowhere;
    scores_.left(s, true);
    ++out_.stats.evictions;
    return;
  }
  scores_.left(s, false);
  if (at.copied) {
    if (at.copied_ms <= clock) {
      give_back(s);
      return put_away(s);
    }
  } else {
    ++out_.stats.offloads;
    at.host_place = host_.take(f_.bytes[s]);
    out_clock_ = std::max({out_clock_, clock, at.arrives_ms}) + f_.copy_ms(s);
    at.copied = true, at.copied_ms = out_clock_;
    at.offload = int64_t(out_.actions.size());
    out_.actions.push_back({.kind = Action::Kind::offload, .storage = s, .place = at.host_place});
  }
  at.where = Where::leaving;
  leaving_.insert({at.copied_ms, s});
  leaving_bytes_ += f_.bytes[s];
}

void Slab::put_away(StorageId s) {
  Whereabouts& at = at_[s];
  const auto& uses = f_.uses[s];
  const auto next = std::lower_bound(uses.begin(), uses.end(), at_.now);
  at.where = Where::host;
  at.next_use = next == uses.end() ? f_.program.node_count() : *next;
  away_.insert({at.next_use, s});
}

void Slab::drop_copy(StorageId s) {
  if (!at_[s].copied) return;
  at_[s].copied = false;
  if (at_[s].offload != kNotThere) {  // nobody has read the copy
    out_.actions[size_t(at_[s].offload)].kind = Action::Kind::nothing;
    at_[s].offload = kNotThere;
    --out_.stats.offloads;
  }
  host_.give_back(at_[s].host_place, f_.bytes[s]);
}

// The neighbours that are the cheapest to release and make one piece with the free bytes around
// them (Coop, Zhang et al. 2023).
bool Slab::release_window(int64_t bytes) {
  struct Piece {
    int64_t begin, end;
    StorageId storage;
    bool stays;
    double cost;
  };
  std::vector<Piece> pieces;
  for (auto [place, s] : there_) {
    const bool leaves = at_[s].where == Where::leaving;
    const bool stays = !leaves && !is_candidate(s);
    pieces.push_back(
        {place, place + f_.bytes[s], s, stays, leaves || stays ? 0 : cost_of_release(s)});
  }
  size_t best_first = 0, best_last = 0;
  double best = std::numeric_limits<double>::infinity(), sum = 0;
  int64_t begin = 0;  // of the bytes from the first piece on, with what is free before it
  for (size_t first = 0, last = 0; last < pieces.size(); ++last) {
    if (pieces[last].stays) {
      first = last + 1, sum = 0, begin = pieces[last].end;
      continue;
    }
    sum += pieces[last].cost;
    const int64_t end = last + 1 < pieces.size() ? pieces[last + 1].begin : pieces_.bytes();
    for (; first <= last && end - begin >= bytes; ++first) {
      if (sum < best) best = sum, best_first = first, best_last = last + 1;
      sum -= pieces[first].cost, begin = pieces[first].end;
    }
  }
  bool any = false;
  for (size_t i = best_first; i < best_last; ++i) {
    if (!is_candidate(pieces[i].storage)) continue;
    release(pieces[i].storage);
    any = true;
  }
  return any;
}

double Slab::cost_of_release(StorageId s) {
  if (!delta_) return scores_.heuristic(s, clock) * double(f_.bytes[s]);
  const double copy = can_offload(s) ? ms_of_offload(s) : std::numeric_limits<double>::infinity();
  const double cost = at_.can_remake(s) ? std::min(at_.ms_again(s, copy), copy) : copy;
  return cost / std::max(clock - at_[s].used_ms, 1e-6);
}

// Nothing else can leave: what lies in the way of a piece that is large enough moves aside, or
// else everything comes back next to each other from the host's memory.
bool Slab::compact(int64_t bytes) {
  if (++out_.stats.compactions > f_.program.node_count()) return false;
  Moves moves, best;
  int64_t least = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> begins{0, pieces_.bytes() - bytes};
  for (auto [place, s] : there_) begins.push_back(place + f_.bytes[s]);
  for (int64_t begin : begins) {
    if (begin < 0 || begin + bytes > pieces_.bytes()) continue;
    const int64_t moved = moves_aside(begin, begin + bytes, moves);
    if (moved >= 0 && moved < least) least = moved, best = moves;
  }
  for (auto [s, place] : best) move(s, place);
  return !best.empty() || compact_through_host();
}

// Which storages would go where, so that [begin, end) is free; the bytes that move, -1: they have
// no place.
int64_t Slab::moves_aside(int64_t begin, int64_t end, Moves& moves) const {
  moves.clear();
  std::vector<StorageId> in_the_way;
  Pieces rest = pieces_;
  int64_t at = begin, moved = 0;
  const auto free_only = [&](int64_t from, int64_t to) {
    if (from < to) rest.take_at(from, to - from);
  };
  for (auto [place, s] : there_) {
    const int64_t last = place + f_.bytes[s];
    if (last <= begin || place >= end) continue;
    free_only(at, place);
    at = last;
    in_the_way.push_back(s), moved += f_.bytes[s];
  }
  free_only(at, end);
  std::stable_sort(in_the_way.begin(), in_the_way.end(),
                   [&](StorageId a, StorageId b) { return f_.bytes[a] > f_.bytes[b]; });
  for (StorageId s : in_the_way) {
    const int64_t place = rest.take(f_.bytes[s]);
    if (place < 0) return -1;
    moves.push_back({s, place});
  }
  return moved;
}

void Slab::move(StorageId s, int64_t place) {
  Whereabouts& at = at_[s];
  pieces_.take_at(place, f_.bytes[s]);
  clock = std::max(clock, at.arrives_ms) + f_.move_ms(s);
  give_back(s);
  at.place = place;
  there_[place] = s;
  out_.actions.push_back({.kind = Action::Kind::move, .storage = s, .place = place});
}

bool Slab::compact_through_host() {
  std::vector<StorageId> moved;
  for (auto [place, s] : there_) moved.push_back(s);
  for (StorageId s : moved) {
    if (!can_offload(s)) return false;
    Whereabouts& at = at_[s];
    ++at.wanted;
    release(s);
    --at.wanted;
  }
  while (!leaving_.empty()) wait();
  for (StorageId s : moved) {
    if (at_[s].pins > 0) reload(s);
  }
  return !moved.empty();
}

void Slab::refuse(StorageId s) const {
  int64_t pinned = 0;
  for (auto [place, other] : there_) pinned += at_[other].pins > 0 ? f_.bytes[other] : 0;
  const Node& node = f_.program.node(at_.now);
  const std::string where = f_.program.scope_of(node);
  throw BudgetError(at_.manager() + " finds no " + format_bytes(f_.bytes[s]) +
                    " in one piece for " + name_of(f_.program, f_.storages, s) + " at node " +
                    std::to_string(at_.now) + " (" + node.op->name +
                    (where.empty() ? "" : ", " + where) +
                    "): " + format_bytes(pieces_.free_bytes()) + " of " +
                    format_bytes(pieces_.bytes()) + " are free, " + format_bytes(pinned) +
                    " are in use by the node at hand, and nothing else can leave");
}

}  // namespace pal
