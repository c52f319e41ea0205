// The walk over the nodes with a clock for each queue, and the releases that make room.
#include "memory/dynamic/policy.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/op.h"
#include "core/text.h"
#include "memory/dynamic/scores.h"
#include "memory/dynamic/slab.h"
#include "memory/passes/forms.h"
#include "memory/storages/storages.h"

namespace pal {
namespace {

// A step that runs nodes again for more than so many steps' time, or brings one storage back so
// much more often than it is used, is not going to be of use. (A storage that many nodes use may
// have to come back for each of them where there is room for one node alone.)
constexpr double kMostAgain = 4;
constexpr int kMostReturns = 16;
// What was made again so often is copied out the next time (delta).
constexpr int kMostRemakes = 8;
// Of nodes that run again, because what they had made had to leave again (dtr).
constexpr int kDeepest = 64;

class Policy {
 public:
  Policy(const StepFacts& facts, const DynamicOptions& options, int64_t room, int64_t host_room)
      : f_(facts),
        o_(options),
        delta_(options.manager == Manager::delta),
        slab_(room / kAlignment * kAlignment),
        host_(host_room / kAlignment * kAlignment),
        at_(facts.bytes.size()),
        seen_(facts.bytes.size(), 0),
        scores_(facts, options) {}

  Decisions run() {
    const Clock::time_point start = Clock::now();
    for (NodeId n : f_.program.nodes.ids()) {
      if (f_.is_free[n]) continue;
      now_ = n;
      backward_ |= is_later(f_.program.node(n));
      bring(n);
      execute(n, nullptr);
      for (StorageId s : f_.touches[n]) {
        if (f_.last_use[s] == n) end_life(s);
      }
      if (!delta_) continue;
      begin_early();
      if (backward_) prefetch();
    }
    out_.room = slab_.highest(), out_.host_room = host_.highest();
    out_.stats.search_us = 1e6 * seconds_since(start);
    return std::move(out_);
  }

 private:
  enum class Where : uint8_t {
    nowhere,  // not made yet, or to be made again
    device,
    leaving,  // on the device, until its copy out is done
    host,     // in the host's memory alone
  };
  struct At {
    Where where = Where::nowhere;
    bool copied = false;      // the host's memory has what it holds
    bool prefetched = false;  // and not used since

    bool orphan = false;    // what it was made of is gone for good
    bool banished = false;  // gone for good
    int wanted = 0;         // by what is being brought back: delta may copy it out, no more
    int pins = 0, returns = 0, remakes = 0;
    size_t written = 0;  // writers that have run
    size_t made = 0;     // of those, on the bytes that it has now
    int64_t place = 0, host_place = 0;
    NodeId next_use = kNone;  // while it is away
    double used_ms = 0, copied_ms = 0, arrives_ms = 0;
  };
  bool is_evicted(StorageId s) const {
    return at_[s].where == Where::nowhere && at_[s].written > 0;
  }
  // Someone of the step itself reads it, now or later.
  bool is_alive(StorageId s) const { return f_.last_use[s] >= now_; }

  // DELTA's evict_pinned is the opposite of this, offload_pinned of the next.
  bool can_remake(StorageId s) const {
    const At& at = at_[s];
    if (at.written == 0 || at.orphan) return false;
    if (delta_ && (!o_.evicts || at.wanted > 0 || at.remakes >= kMostRemakes)) return false;
    NodeId until = std::max(f_.last_use[s], now_);
    if (at.written < f_.writers[s].size()) until = std::min(until, f_.writers[s][at.written]);
    return f_.remakable[s][at.written - 1] >= until;
  }
  bool can_offload(StorageId s) const {
    return delta_ && (at_[s].copied || host_.largest() >= f_.bytes[s]);
  }
  bool is_candidate(StorageId s) const {
    const At& at = at_[s];
    return at.where == Where::device && at.pins == 0 && (can_remake(s) || can_offload(s));
  }

  // Running a node: for the first time, or again for the storages `made`.
  void execute(NodeId n, const std::vector<StorageId>* made) {
    std::vector<StorageId> touched = f_.touches[n];
    if (made) {
      touched = f_.reads[n];
      const auto add = [&](StorageId s) {
        if (std::find(touched.begin(), touched.end(), s) == touched.end()) touched.push_back(s);
      };
      for (StorageId s : *made) add(s);
      const StorageId workspace = f_.storages.workspace[n];
      if (workspace != kNone) add(workspace);
    }
    // The largest first: it is the hardest to find a place for.
    std::stable_sort(touched.begin(), touched.end(),
                     [&](StorageId a, StorageId b) { return f_.bytes[a] > f_.bytes[b]; });
    for (StorageId s : touched) {
      ++at_[s].pins;
      if (at_[s].where == Where::leaving) stay(s);
    }
    for (StorageId s : touched) {
      const bool here = made && std::find(made->begin(), made->end(), s) != made->end();
      if (is_evicted(s) && !here) make_again_within({s});
    }
    for (StorageId s : touched) {
      if (at_[s].where == Where::host) reload(s);
    }
    for (StorageId s : touched) {
      if (at_[s].where != Where::nowhere) continue;
      const bool fresh =
          made ? std::find(made->begin(), made->end(), s) != made->end() : at_[s].written == 0;
      if (!fresh && f_.storages.workspace[n] != s) lost(s, n);
      take(s);
    }
    for (StorageId s : touched) {
      At& at = at_[s];
      clock_ = std::max(clock_, at.arrives_ms);
      out_.stats.prefetch_hits += at.prefetched, at.prefetched = false;
    }
    for (StorageId s : made ? *made : f_.writes[n]) {
      if (at_[s].copied) clock_ = std::max(clock_, at_[s].copied_ms);
      drop_copy(s);
      ++at_[s].made;
      if (!made) ++at_[s].written;
    }
    out_.actions.push_back({.kind = made ? Action::Kind::again : Action::Kind::run,
                            .node = n,
                            .made = made ? *made : std::vector<StorageId>()});
    clock_ += f_.ms[n];
    if (made) {
      ++out_.stats.recomputes;
      out_.stats.recompute_ms += f_.ms[n];
      if (out_.stats.recompute_ms > kMostAgain * f_.step_ms) {
        thrash("runs nodes again for more than " + std::to_string(int(kMostAgain)) +
               " times the step's own time");
      }
    }
    for (StorageId s : touched) {
      --at_[s].pins, at_[s].used_ms = clock_;
      if (at_[s].where == Where::device) scores_.used(s, clock_);
    }
    const StorageId workspace = f_.storages.workspace[n];
    if (workspace != kNone && at_[workspace].where == Where::device) forget(workspace);
  }

  // Bytes of the room.

  void take(StorageId s) {
    settle();
    int64_t place = 0;
    while ((place = slab_.take(f_.bytes[s])) < 0) make_room(s);
    At& at = at_[s];
    at.place = place, at.where = Where::device, at.made = 0;
    at.used_ms = clock_, at.arrives_ms = 0, at.prefetched = false;
    there_[place] = s;
    used_ += f_.bytes[s];
    scores_.came(s, clock_);
    out_.actions.push_back({.kind = Action::Kind::take, .storage = s, .place = place});
  }
  void give_back(StorageId s) {
    slab_.give_back(at_[s].place, f_.bytes[s]);
    there_.erase(at_[s].place);
  }

  // One step towards a piece that is large enough.
  void make_room(StorageId s) {
    const int64_t bytes = f_.bytes[s];
    if (wait_for_leaving(bytes)) return;
    if (slab_.free_bytes() + leaving_bytes_ < bytes) {
      if (release_one()) return;
      if (leaving_.empty()) refuse(s);
      return wait();
    }
    const double useless = double(slab_.free_bytes()) / double(slab_.bytes());
    out_.stats.fragmentation = std::max(out_.stats.fragmentation, useless);
    if (release_window(bytes)) return;
    if (!leaving_.empty()) return wait();
    if (!release_one() && !compact(bytes)) refuse(s);
  }

  // Bytes whose copies are done by now are free.
  void settle() {
    while (!leaving_.empty() && leaving_.begin()->first <= clock_) {
      const StorageId s = leaving_.begin()->second;
      leaving_.erase(leaving_.begin());
      leaving_bytes_ -= f_.bytes[s];
      give_back(s);
      is_away(s);
    }
  }
  void wait() {
    clock_ = std::max(clock_, leaving_.begin()->first);
    settle();
  }
  // If what is on its way out makes, with what is free, a piece that is large enough.
  bool wait_for_leaving(int64_t bytes) {
    if (leaving_.empty() || slab_.free_bytes() + leaving_bytes_ < bytes) return false;
    int64_t begin = 0, most = 0;
    for (auto [place, s] : there_) {
      if (at_[s].where == Where::leaving) continue;
      most = std::max(most, place - begin);
      begin = place + f_.bytes[s];
    }
    if (std::max(most, slab_.bytes() - begin) < bytes) return false;
    wait();
    return true;
  }

  // What is released, and how.

  bool release_one() {
    const StorageId s = scores_.lowest(clock_, [&](StorageId t) { return is_candidate(t); });
    if (s == kNone) return false;
    release(s);
    return true;
  }

  // DELTA, algorithm 3. Equation 4 is c_r / c_s: bytes and time since the last use cancel.
  bool is_evicted_rather(StorageId s) const {
    if (!can_offload(s)) return true;
    if (!can_remake(s)) return false;
    const double copy = at_[s].copied ? 0 : f_.copy_ms(s);
    return ms_again(s, copy) <= copy;
  }

  // c_r: milliseconds until it would be there again, with all that would have to be made for it.
  // Counted until they are more than `enough`.
  double ms_again(StorageId s, double enough) const {
    ++stamp_;
    double sum = 0;
    std::vector<StorageId> todo{s};
    seen_[s] = stamp_;
    while (!todo.empty() && sum <= enough) {
      const StorageId t = todo.back();
      todo.pop_back();
      for (size_t k = 0; k < at_[t].written; ++k) {
        const NodeId w = f_.writers[t][k];
        sum += f_.ms[w];
        for (StorageId o : f_.reads[w]) {
          if (!is_evicted(o) || seen_[o] == stamp_) continue;
          seen_[o] = stamp_;
          todo.push_back(o);
        }
      }
    }
    return sum;
  }

  void release(StorageId s) {
    At& at = at_[s];
    used_ -= f_.bytes[s];
    at.prefetched = false;
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
      if (at.copied_ms <= clock_) {
        give_back(s);
        return is_away(s);
      }
    } else {
      ++out_.stats.offloads;
      at.host_place = host_.take(f_.bytes[s]);
      out_clock_ = std::max({out_clock_, clock_, at.arrives_ms}) + f_.copy_ms(s);
      at.copied = true, at.copied_ms = out_clock_;
      out_.stats.moved_bytes += f_.storages[s].bytes;
      out_.actions.push_back({.kind = Action::Kind::offload, .storage = s, .place = at.host_place});
    }
    at.where = Where::leaving;
    leaving_.insert({at.copied_ms, s});
    leaving_bytes_ += f_.bytes[s];
  }

  void is_away(StorageId s) {
    At& at = at_[s];
    const auto& uses = f_.uses[s];
    const auto next = std::lower_bound(uses.begin(), uses.end(), now_);
    at.where = Where::host;
    at.next_use = next == uses.end() ? f_.program.node_count() : *next;
    away_.insert({at.next_use, s});
  }
  void drop_copy(StorageId s) {
    if (!at_[s].copied) return;
    at_[s].copied = false;
    host_.give_back(at_[s].host_place, f_.bytes[s]);
  }

  // The neighbours that are the cheapest to release and make one piece with the free bytes around
  // them (Coop, Zhang et al. 2023).
  bool release_window(int64_t bytes) {
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
      const int64_t end = last + 1 < pieces.size() ? pieces[last + 1].begin : slab_.bytes();
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
  double cost_of_release(StorageId s) {
    if (!delta_) return scores_.heuristic(s, clock_) * double(f_.bytes[s]);
    const double copy = can_offload(s) ? f_.copy_ms(s) : std::numeric_limits<double>::infinity();
    const double cost = can_remake(s) ? std::min(ms_again(s, copy), copy) : copy;
    return cost / std::max(clock_ - at_[s].used_ms, 1e-6);
  }

  // Nothing else can leave: what lies in the way of a piece that is large enough moves aside, or
  // else everything comes back next to each other from the host's memory.
  bool compact(int64_t bytes) {
    if (++out_.stats.compactions > f_.program.node_count()) return false;
    std::vector<std::pair<StorageId, int64_t>> moves, best;
    int64_t least = std::numeric_limits<int64_t>::max();
    std::vector<int64_t> begins{0, slab_.bytes() - bytes};
    for (auto [place, s] : there_) begins.push_back(place + f_.bytes[s]);
    for (int64_t begin : begins) {
      if (begin < 0 || begin + bytes > slab_.bytes()) continue;
      const int64_t moved = moves_aside(begin, begin + bytes, moves);
      if (moved >= 0 && moved < least) least = moved, best = moves;
    }
    for (auto [s, place] : best) move(s, place);
    return !best.empty() || compact_through_host();
  }
  // Which storages would go where, so that [begin, end) is free; the bytes that move, -1: they have
  // no place.
  int64_t moves_aside(int64_t begin, int64_t end,
                      std::vector<std::pair<StorageId, int64_t>>& moves) const {
    moves.clear();
    std::vector<StorageId> in_the_way;
    Slab rest = slab_;
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
  void move(StorageId s, int64_t place) {
    At& at = at_[s];
    slab_.take_at(place, f_.bytes[s]);
    clock_ = std::max(clock_, at.arrives_ms) + f_.move_ms(s);
    give_back(s);
    at.place = place;
    there_[place] = s;
    out_.actions.push_back({.kind = Action::Kind::move, .storage = s, .place = place});
  }
  bool compact_through_host() {
    std::vector<StorageId> moved;
    for (auto [place, s] : there_) moved.push_back(s);
    for (StorageId s : moved) {
      if (!can_offload(s)) return false;
      At& at = at_[s];
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

  // What comes back.

  void reload(StorageId s) {
    At& at = at_[s];
    away_.erase({at.next_use, s});
    const size_t made = at.made;
    take(s);
    at.made = made;
    in_clock_ = std::max({in_clock_, clock_, at.copied_ms}) + f_.copy_ms(s);
    at.arrives_ms = in_clock_;
    ++out_.stats.reloads;
    out_.stats.moved_bytes += f_.storages[s].bytes;
    out_.actions.push_back({.kind = Action::Kind::reload, .storage = s});
    count_return(s);
  }
  // On its way out, and needed again.
  void stay(StorageId s) {
    At& at = at_[s];
    leaving_.erase({at.copied_ms, s});
    leaving_bytes_ -= f_.bytes[s];
    used_ += f_.bytes[s];
    at.where = Where::device;
    scores_.came(s, clock_);
  }
  void count_return(StorageId s) {
    if (++at_[s].returns > kMostReturns + int(f_.uses[s].size())) {
      thrash("brings one storage back " + std::to_string(at_[s].returns) + " times for " +
             std::to_string(f_.uses[s].size()) + " nodes that use it");
    }
  }

  // What a node needs and has to be made again. What lies in the host's memory may come back in
  // less time: algorithm 1 makes that again too, wherever it can.
  void bring(NodeId n) {
    std::vector<StorageId> again;
    for (StorageId s : f_.touches[n]) {
      const bool evicted = is_evicted(s);
      if (evicted || (at_[s].where == Where::host && is_remade_rather(s))) again.push_back(s);
    }
    if (again.empty()) return;
    for (StorageId s : f_.touches[n]) ++at_[s].wanted;
    make_again(again);
    for (StorageId s : f_.touches[n]) --at_[s].wanted;
  }
  bool is_remade_rather(StorageId s) const {
    if (!can_remake(s)) return false;
    const double copy = std::max(in_clock_ - clock_, 0.0) + f_.copy_ms(s);
    return ms_again(s, copy) <= copy;
  }

  // The nodes that make these, in their order, with all that has to be made for them.
  void make_again(const std::vector<StorageId>& wanted) {
    std::map<NodeId, std::vector<StorageId>> nodes;  // with what is read of what they make
    std::map<StorageId, int> readers;                // among those nodes, still to come
    std::vector<StorageId> todo = wanted;
    std::set<StorageId> again(wanted.begin(), wanted.end());
    while (!todo.empty()) {
      const StorageId s = todo.back();
      todo.pop_back();
      for (size_t k = 0; k < at_[s].written; ++k) {
        std::vector<StorageId>& made = nodes[f_.writers[s][k]];
        made.push_back(s);
        if (made.size() > 1) continue;
        for (StorageId o : f_.reads[f_.writers[s][k]]) {
          ++readers[o];
          if (is_evicted(o) && again.insert(o).second) todo.push_back(o);
        }
      }
    }
    for (auto [o, count] : readers) ++at_[o].wanted;
    for (StorageId s : again) {
      ++at_[s].wanted, ++at_[s].remakes;
      if (at_[s].where == Where::host) away_.erase({at_[s].next_use, s});
      drop_copy(s);
      at_[s].where = Where::nowhere, at_[s].made = 0;
      count_return(s);
    }
    for (auto& [n, made] : nodes) {
      leave_what_is_made(n, made);
      if (!made.empty()) execute(n, &made);
      for (StorageId o : f_.reads[n]) {
        if (--readers[o] == 0 && !is_alive(o) && at_[o].wanted <= 1) end_life(o);
      }
    }
    for (auto [o, count] : readers) --at_[o].wanted;
    for (StorageId s : again) --at_[s].wanted;
    for (StorageId s : again) banish_parents(s);
  }

  // Of what a node shall make again: what has been brought back meanwhile, because it had left
  // once more before its last writer ran, has all of them behind it.
  void leave_what_is_made(NodeId n, std::vector<StorageId>& made) {
    std::erase_if(made, [&](StorageId s) {
      const auto& writers = f_.writers[s];
      const auto before =
          size_t(std::lower_bound(writers.begin(), writers.end(), n) - writers.begin());
      if (at_[s].where == Where::nowhere && before > 0) make_again_within({s});
      return at_[s].where != Where::nowhere && at_[s].made > before;
    });
  }
  void make_again_within(const std::vector<StorageId>& wanted) {
    if (++depth_ > kDeepest) thrash("runs nodes again for nodes that run again");
    make_again(wanted);
    --depth_;
  }

  // DELTA, algorithm 4: the nearest first, while memory is enough and few are under way.
  void prefetch() {
    const auto under_way = [&] {
      while (!arriving_.empty() && *arriving_.begin() <= clock_) arriving_.erase(arriving_.begin());
      return int(arriving_.size());
    };
    settle();
    while (!away_.empty() && under_way() < o_.prefetch) {
      const StorageId s = away_.begin()->second;
      const bool enough = double(used_ + f_.bytes[s]) <= o_.start * double(slab_.bytes());
      if (!enough || slab_.largest() < f_.bytes[s]) return;
      reload(s);
      at_[s].prefetched = true;
      arriving_.insert(at_[s].arrives_ms);
      ++out_.stats.prefetches;
    }
  }

  // Bytes on their way out count as released.
  void begin_early() {
    if (backward_ && !o_.release_in_backward) return;
    while (double(used_) > o_.start * double(slab_.bytes()) && release_one()) {
    }
  }

  // What nobody reads any more.

  void end_life(StorageId s) {
    if (at_[s].where == Where::nowhere) return;
    if (!delta_ && o_.dealloc == Dealloc::banish && f_.storages[s].workspace_of == kNone) {
      return banish(s);
    }
    forget(s);
  }
  void forget(StorageId s) {
    At& at = at_[s];
    if (at.where == Where::leaving) stay(s);
    if (at.where == Where::host) away_.erase({at.next_use, s});
    if (at.where == Where::device) {
      used_ -= f_.bytes[s];
      give_back(s);
      scores_.left(s, at.written > 0);
    }
    drop_copy(s);
    at.where = Where::nowhere;
  }

  // DTR: it goes for good, once nothing that was made of it is evicted; what was made of it cannot
  // be made again then.
  void banish(StorageId s) {
    for (StorageId child : f_.children[s]) {
      if (is_evicted(child) && !at_[child].banished) return;
    }
    forget(s);
    at_[s].banished = true;
    for (StorageId child : f_.children[s]) at_[child].orphan = true;
  }
  void banish_parents(StorageId s) {
    if (delta_ || o_.dealloc != Dealloc::banish) return;
    for (StorageId o : f_.parents[s]) {
      if (at_[o].where == Where::device && !is_alive(o)) banish(o);
    }
  }

  // What cannot be done.

  std::string name() const { return "memory.manager: " + name_of(o_.manager); }
  [[noreturn]] void lost(StorageId s, NodeId n) const {
    throw ProgramError(name() + " lost " + name_of(f_.program, f_.storages, s) + " before node " +
                       std::to_string(n));
  }
  [[noreturn]] void refuse(StorageId s) const {
    int64_t pinned = 0;
    for (auto [place, other] : there_) pinned += at_[other].pins > 0 ? f_.bytes[other] : 0;
    throw BudgetError(name() + " finds no " + format_bytes(f_.bytes[s]) + " in one piece for " +
                      name_of(f_.program, f_.storages, s) + " at node " + std::to_string(now_) +
                      " of the step: " + format_bytes(slab_.free_bytes()) + " of " +
                      format_bytes(slab_.bytes()) + " are free, " + format_bytes(pinned) +
                      " are in use by the node at hand, and nothing else can leave");
  }
  [[noreturn]] void thrash(const std::string& what) const {
    std::vector<StorageId> most;
    for (StorageId s : at_.ids()) {
      if (at_[s].returns > 0) most.push_back(s);
    }
    const size_t count = std::min<size_t>(most.size(), 3);
    std::partial_sort(most.begin(), most.begin() + std::ptrdiff_t(count), most.end(),
                      [&](StorageId a, StorageId b) {
                        return std::pair(-at_[a].returns, a) < std::pair(-at_[b].returns, b);
                      });
    std::string list;
    for (size_t i = 0; i < count; ++i) {
      list += (i ? "; " : "") + name_of(f_.program, f_.storages, most[i]) + " (" +
              std::to_string(at_[most[i]].returns) + " times)";
    }
    throw BudgetError(name() + " " + what + "; most often came back: " + list);
  }

  const StepFacts& f_;
  const DynamicOptions& o_;
  const bool delta_;
  Slab slab_, host_;
  ByStorage<At> at_;
  mutable ByStorage<int32_t> seen_;
  mutable int32_t stamp_ = 0;
  Scores scores_;
  Decisions out_;
  std::map<int64_t, StorageId> there_;              // by place: on the device, or leaving
  std::set<std::pair<double, StorageId>> leaving_;  // by when the copy is done
  std::set<std::pair<NodeId, StorageId>> away_;     // by the next use
  std::multiset<double> arriving_;
  int64_t used_ = 0, leaving_bytes_ = 0;
  double clock_ = 0, out_clock_ = 0, in_clock_ = 0;  // milliseconds, of the three queues
  NodeId now_ = 0;
  int depth_ = 0;
  bool backward_ = false;
};

}  // namespace

Decisions decide(const StepFacts& facts, const DynamicOptions& options, int64_t room,
                 int64_t host_room) {
  return Policy(facts, options, room, host_room).run();
}

}  // namespace pal
