// Lazy greedy changes, down and up.
#include "memory/front/descent.h"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

namespace pal {
namespace {

constexpr double kNoMs = 1e-3;    // less time than this counts as much
constexpr double kLessMs = 1e-6;  // by which a step has to be faster to be better
constexpr int kRaises = 4;        // rounds, at most

}  // namespace

Descent::Descent(Sketch& sketch, std::vector<Group> groups)
    : sketch_(sketch), groups_(std::move(groups)), fates_(sketch.nothing()) {}

Sketch::Count Descent::count(int64_t limit) {
  ++counts_;
  return sketch_.count(fates_, limit);
}

bool Descent::may_leave(size_t group) const {
  return std::all_of(groups_[group].begin(), groups_[group].end(),
                     [&](StorageId s) { return sketch_.may_leave(s); });
}

void Descent::change(size_t group, Fate to) {
  for (const StorageId s : groups_[group]) fates_[s] = to;
}

Sketch::Count Descent::tried(size_t group, Fate to, int64_t limit) {
  const Fate was = fate_of(group);
  change(group, to);
  const Sketch::Count out = count(limit);
  change(group, was);
  return out;
}

void Descent::start_from(const Fates& fates, int64_t limit) {
  fates_ = fates;
  now_ = count(limit);
}

// The other fates of groups that matter; the sketch has just counted.
std::vector<Descent::Move> Descent::moves(Range range, bool lowers) const {
  std::vector<Move> out;
  for (size_t group = range.begin; group < range.end; ++group) {
    const bool matters = std::any_of(groups_[group].begin(), groups_[group].end(), [&](auto s) {
      return sketch_.is_needed(s) &&
             !(lowers && fates_[s] == Fate::keep && !sketch_.waits_above(s));
    });
    // Only what is made again costs time that could be saved.
    if (!matters || (!lowers && fate_of(group) != Fate::again)) continue;
    for (const Fate to : {Fate::keep, Fate::again, Fate::away}) {
      if (to == fate_of(group) || (to == Fate::away && !may_leave(group))) continue;
      out.push_back({group, to});
    }
  }
  return out;
}

// Bytes over nodes that no longer lie above the limit, for a millisecond.
double Descent::worth(const Move& move, int64_t limit) {
  if (fate_of(move.group) == move.to) return 0;
  const Sketch::Count then = tried(move.group, move.to, limit);
  const double less = now_.over - then.over;
  return less <= 0 ? 0 : less / std::max(then.ms - now_.ms, kNoMs);
}

bool Descent::lower(int64_t limit, Range range) {
  now_ = count(limit);
  std::priority_queue<Move> queue;
  int round = 0;
  bool fresh = false;  // the queue has all moves there are now
  while (now_.over > 0) {
    if (queue.empty()) {
      if (fresh) return false;
      count(limit);
      for (Move move : moves(range, true)) {
        move.worth = worth(move, limit), move.round = round;
        if (move.worth > 0) queue.push(move);
      }
      fresh = true;
      if (queue.empty()) return false;
      continue;
    }
    Move move = queue.top();
    queue.pop();
    if (move.round != round) {
      move.worth = worth(move, limit), move.round = round;
      if (move.worth <= 0) continue;
      if (!queue.empty() && queue.top().worth > move.worth) {
        queue.push(move);
        continue;
      }
    }
    change(move.group, move.to);
    now_ = count(limit);
    ++round, fresh = false;
  }
  return true;
}

void Descent::raise(int64_t limit, Range range) {
  now_ = count(limit);
  for (int i = 0; i < kRaises; ++i) {
    std::vector<Move> saving;
    for (Move move : moves(range, false)) {
      const Sketch::Count then = tried(move.group, move.to, limit);
      move.worth = now_.ms - then.ms;
      if (then.over <= now_.over && move.worth > kLessMs) saving.push_back(move);
    }
    std::sort(saving.begin(), saving.end(), [](const Move& a, const Move& b) { return b < a; });
    bool any = false;
    for (const Move& move : saving) {
      const Sketch::Count then = tried(move.group, move.to, limit);
      if (then.over > now_.over || then.ms >= now_.ms - kLessMs) continue;
      change(move.group, move.to), now_ = then, any = true;
    }
    now_ = count(limit);
    if (!any) return;
  }
}

bool is_better(const Sketch::Count& a, const Sketch::Count& b) {
  return a.over != b.over ? a.over < b.over : a.ms < b.ms - kLessMs;
}

void Descent::renew(int64_t limit, size_t window, int64_t most_counts) {
  const size_t end = groups_.size();
  const int64_t until = counts_ + most_counts;
  now_ = count(limit);
  for (bool any = true; any;) {
    any = false;
    for (size_t begin = 0; begin < end; begin += window / 2) {
      if (counts_ >= until) return;
      const Fates before = fates_;
      const Sketch::Count was = now_;
      for (size_t group = begin; group < std::min(end, begin + window); ++group) {
        change(group, Fate::again);
      }
      if (fates_ == before) continue;
      const Range around{begin > window ? begin - window : 0, std::min(end, begin + 2 * window)};
      lower(limit, around);
      if (now_.over <= was.over) raise(limit, around);
      if (is_better(now_, was)) {
        any = true;
      } else {
        fates_ = before, now_ = was;
      }
    }
  }
}

std::vector<Descent::Group> groups_of(const Sketch& sketch, const StepView& view, size_t most) {
  const Program& p = view.program;
  const std::vector<StorageId>& open = sketch.open();
  std::vector<Descent::Group> groups;
  if (open.size() <= most) {
    for (const StorageId s : open) groups.push_back({s});
    return groups;
  }
  // By what makes the first value: a group for each operator and place in a layer.
  ByStorage<ValueId> first(view.storage_bytes.size(), kNone);
  for (ValueId v : p.values.ids()) {
    if (view.storage[v] != kNone && first[view.storage[v]] == kNone) first[view.storage[v]] = v;
  }
  const Fates fates = sketch.nothing();
  using Kind = std::tuple<ScopeId, const OpDef*, int64_t, Fate, size_t>;
  std::map<Kind, size_t> number;
  std::map<std::pair<ScopeId, const OpDef*>, std::pair<int32_t, size_t>> at_step;
  for (const StorageId s : open) {
    const Node& node = p.node(p.value(first[s]).producer);
    // The same operator several times in a step of time: told apart by their order.
    auto& [step, order] = at_step.try_emplace({node.scope, node.op}, kNone, 0).first->second;
    order = node.step == step && node.step != kNone ? order + 1 : 0, step = node.step;
    const Kind kind{node.scope, node.op, view.storage_bytes[s], fates[s], order};
    const auto [at, is_new] = number.emplace(kind, groups.size());
    if (is_new) groups.emplace_back();
    groups[at->second].push_back(s);
  }
  // Parts of these, as many as there may be.
  std::vector<Descent::Group> parts;
  const size_t each = std::max<size_t>(1, most / groups.size());
  for (const Descent::Group& group : groups) {
    const size_t size = (group.size() + each - 1) / each;
    for (size_t begin = 0; begin < group.size(); begin += size) {
      const size_t end = std::min(group.size(), begin + size);
      parts.emplace_back(group.begin() + std::ptrdiff_t(begin),
                         group.begin() + std::ptrdiff_t(end));
    }
  }
  std::sort(parts.begin(), parts.end(),
            [](const auto& a, const auto& b) { return a.front() < b.front(); });
  return parts;
}

}  // namespace pal
