// The walk over the nodes: what each needs is brought back, it runs, what nobody reads any more
// goes.
#include "memory/dynamic/policy.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "core/clock.h"
#include "core/error.h"
#include "core/op.h"
#include "memory/dynamic/ledger.h"
#include "memory/dynamic/slab.h"
#include "memory/passes/forms.h"
#include "memory/storages/storages.h"

namespace pal {
namespace {

// A step that runs nodes again for more than so many steps' time is not going to be of use.
constexpr double kMostAgain = 4;
// How deep reruns may nest: a node can run again only after another has, for what it reads.
constexpr int kDeepest = 64;

class Policy {
 public:
  Policy(const StepFacts& facts, const DynamicOptions& options, int64_t bytes, int64_t host_bytes)
      : f_(facts),
        o_(options),
        delta_(options.manager == Manager::delta),
        at_(facts, options),
        slab_(facts, options, at_, bytes, host_bytes, out_) {}

  Decisions run() {
    const Clock::time_point start = Clock::now();
    for (NodeId n : f_.program.nodes.ids()) {
      if (f_.is_free[n]) continue;
      at_.now = n;
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
    out_.ms = slab_.end_ms();
    out_.slab_bytes = slab_.highest(), out_.host_bytes = slab_.host_highest();
    out_.stats.search_us = 1e6 * seconds_since(start);
    return std::move(out_);
  }

 private:
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
      if (at_[s].where == Where::leaving) slab_.stay(s);
    }
    for (StorageId s : touched) {
      const bool here = made && std::find(made->begin(), made->end(), s) != made->end();
      if (at_.is_evicted(s) && !here) make_again_within({s});
    }
    for (StorageId s : touched) {
      if (at_[s].where == Where::host) slab_.reload(s), at_.count_return(s);
    }
    for (StorageId s : touched) {
      if (at_[s].where != Where::nowhere) continue;
      const bool fresh =
          made ? std::find(made->begin(), made->end(), s) != made->end() : at_[s].written == 0;
      if (!fresh && f_.storages.workspace[n] != s) lost(s, n);
      slab_.take(s);
    }
    for (StorageId s : touched) {
      Whereabouts& at = at_[s];
      slab_.clock = std::max(slab_.clock, at.arrives_ms);
      out_.stats.prefetch_hits += at.prefetched, at.prefetched = false;
    }
    for (StorageId s : made ? *made : f_.writes[n]) {
      if (at_[s].copied) slab_.clock = std::max(slab_.clock, at_[s].copied_ms);
      slab_.drop_copy(s);
      ++at_[s].made;
      if (!made) ++at_[s].written;
    }
    out_.actions.push_back({.kind = made ? Action::Kind::again : Action::Kind::run,
                            .node = n,
                            .made = made ? *made : std::vector<StorageId>()});
    slab_.clock += f_.ms[n];
    if (made) {
      ++out_.stats.recomputes;
      out_.stats.recompute_ms += f_.ms[n];
      if (out_.stats.recompute_ms > kMostAgain * f_.step_ms) {
        at_.thrash("runs nodes again for more than " + std::to_string(int(kMostAgain)) +
                   " times the step's own time");
      }
    }
    for (StorageId s : touched) {
      --at_[s].pins;
      slab_.used(s);
    }
    const StorageId workspace = f_.storages.workspace[n];
    if (workspace != kNone && at_[workspace].where == Where::device) slab_.forget(workspace, false);
  }

  // What a node needs and has to be made again. What lies in the host's memory may come back in
  // less time: algorithm 1 makes that again too, wherever it can.
  void bring(NodeId n) {
    std::vector<StorageId> again;
    for (StorageId s : f_.touches[n]) {
      const bool evicted = at_.is_evicted(s);
      if (evicted || (at_[s].where == Where::host && is_remade_rather(s))) again.push_back(s);
    }
    if (again.empty()) return;
    for (StorageId s : f_.touches[n]) ++at_[s].wanted;
    make_again(again);
    for (StorageId s : f_.touches[n]) --at_[s].wanted;
  }
  bool is_remade_rather(StorageId s) const {
    if (!at_.can_remake(s)) return false;
    const double copy = slab_.ms_of_reload(s);
    return at_.ms_again(s, copy) <= copy;
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
          if (at_.is_evicted(o) && again.insert(o).second) todo.push_back(o);
        }
      }
    }
    for (auto [o, count] : readers) ++at_[o].wanted;
    for (StorageId s : again) {
      ++at_[s].wanted, ++at_[s].remakes;
      if (at_[s].where == Where::host) slab_.no_longer_away(s);
      slab_.drop_copy(s);
      at_[s].where = Where::nowhere, at_[s].made = 0;
      at_.count_return(s);
    }
    for (auto& [n, made] : nodes) {
      execute(n, &made);
      for (StorageId o : f_.reads[n]) {
        const bool is_wanted = at_[o].wanted > 1 + int(again.count(o));  // by someone else
        if (--readers[o] == 0 && !at_.is_alive(o) && !is_wanted && !at_.is_worn(o)) end_life(o);
      }
    }
    for (auto [o, count] : readers) --at_[o].wanted;
    for (StorageId s : again) --at_[s].wanted;
  }

  void make_again_within(const std::vector<StorageId>& wanted) {
    if (++depth_ > kDeepest) at_.thrash("runs nodes again for nodes that run again");
    make_again(wanted);
    --depth_;
  }

  // DELTA, algorithm 4: the nearest first, while memory is enough and few are under way.
  void prefetch() {
    const auto under_way = [&] {
      while (!arriving_.empty() && *arriving_.begin() <= slab_.clock)
        arriving_.erase(arriving_.begin());
      return int(arriving_.size());
    };
    slab_.settle();
    while (under_way() < o_.prefetch) {
      const StorageId s = slab_.next_away();
      if (s == kNone) return;
      const bool enough =
          double(slab_.used_bytes() + f_.bytes[s]) <= o_.start * double(slab_.bytes());
      if (!enough || slab_.largest() < f_.bytes[s]) return;
      slab_.reload(s);
      at_[s].prefetched = true;
      arriving_.insert(at_[s].arrives_ms);
      ++out_.stats.prefetches;
    }
  }

  // Bytes on their way out count as released.
  void begin_early() {
    if (backward_ && !o_.release_in_backward) return;
    while (double(slab_.used_bytes()) > o_.start * double(slab_.bytes()) && slab_.release_one()) {
    }
  }

  // What nobody reads any more.

  void end_life(StorageId s) {
    if (at_[s].where == Where::nowhere) return;
    if (!delta_ && o_.dealloc == Dealloc::banish && f_.storages[s].workspace_of == kNone) {
      return banish(s);
    }
    slab_.forget(s, at_[s].written > 0);
  }

  // DTR: it goes for good, once nothing that was made of it is evicted; what was made of it cannot
  // be made again then.
  void banish(StorageId s) {
    for (StorageId child : f_.children[s]) {
      if (at_.is_evicted(child) && !at_[child].banished) return;
    }
    slab_.forget(s, false);
    at_[s].banished = true;
    for (StorageId child : f_.children[s]) at_[child].orphan = true;
  }
  [[noreturn]] void lost(StorageId s, NodeId n) const {
    throw ProgramError(at_.manager() + " lost " + name_of(f_.program, f_.storages, s) +
                       " before node " + std::to_string(n));
  }

  const StepFacts& f_;
  const DynamicOptions& o_;
  const bool delta_;
  Decisions out_;
  Ledger at_;
  Slab slab_;
  std::multiset<double> arriving_;  // when the copies back that were prefetched will be there
  int depth_ = 0;
  bool backward_ = false;
};

}  // namespace

Decisions decide(const StepFacts& facts, const DynamicOptions& options, int64_t bytes,
                 int64_t host_bytes) {
  return Policy(facts, options, bytes, host_bytes).run();
}

}  // namespace pal
