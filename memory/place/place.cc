// The portfolio: which orders and which searches, for which buffers, for how long.
#include "memory/place/place.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/clock.h"
#include "memory/place/first_fit.h"
#include "memory/place/improve.h"
#include "memory/place/join.h"
#include "memory/place/load.h"
#include "memory/place/search/search.h"

namespace pal {
namespace {

using Deadline = std::optional<Clock::time_point>;

bool is_past(const Deadline& deadline) { return deadline && Clock::now() >= *deadline; }

// Part of the time that is left.
Deadline share(const Deadline& deadline, double part) {
  if (!deadline) return {};
  const auto now = Clock::now();
  return now + std::chrono::duration_cast<Clock::duration>((*deadline - now) * part);
}

// The best first-fit order of those that `frozen` (may be empty) leaves to place, if one is below
// `best`. Ends at a height of at most `enough`, or once past the deadline with one order tried.
void try_orders(std::span<const Buffer> buffers, int64_t enough, std::span<const int64_t> frozen,
                const Deadline& deadline, Placement& best) {
  constexpr size_t kMany = 100'000;  // the quick order first: it may be the only one
  Clock::duration step{};            // what sorting so many takes, about
  const auto is_late = [&] {
    return best.height < INT64_MAX && deadline && Clock::now() + 2 * step >= *deadline;
  };
  if (buffers.size() > kMany && frozen.empty()) {
    const auto start = Clock::now();
    Placement p = place_by_start(buffers);
    if (p.height < best.height) best = std::move(p), best.order = "start";
    step = Clock::now() - start;
  }
  if (best.height <= enough || is_late()) return;
  FirstFit fit(buffers);
  std::vector<int32_t> order;
  std::vector<double> keys(buffers.size());
  // Each order is a key, largest first; ties by size, then duration, then start, then number.
  // `nest`: what is alive at the hottest moment comes before, by its start or its end, and so makes
  // a stack without a gap there, which shrinks from above towards one side.
  enum Nest { kNo, kByStart, kByEnd };
  const int64_t hottest = hottest_moment(buffers);
  auto duration = [](const Buffer& b) { return b.upper - b.lower; };
  auto attempt = [&](const char* name, auto key, Nest nest = kNo) {
    if (best.height <= enough || is_late()) return;
    order.clear();
    size_t stacked = 0;
    for (size_t i = 0; i < buffers.size(); ++i) {
      keys[i] = key(buffers[i]);
      if (!frozen.empty() && frozen[i] >= 0) continue;
      order.push_back(int32_t(i));
      if (nest == kNo || buffers[i].lower > hottest || buffers[i].upper <= hottest) continue;
      keys[i] = nest == kByStart ? -double(buffers[i].lower) : double(buffers[i].upper);
      std::swap(order[stacked++], order.back());
    }
    auto before = [&](int32_t i, int32_t j) {
      const Buffer &a = buffers[size_t(i)], &b = buffers[size_t(j)];
      const double ka = keys[size_t(i)], kb = keys[size_t(j)];
      if (ka != kb) return ka > kb;
      if (a.size != b.size) return a.size > b.size;
      if (duration(a) != duration(b)) return duration(a) > duration(b);
      return a.lower != b.lower ? a.lower < b.lower : i < j;
    };
    std::sort(order.begin(), order.begin() + long(stacked), before);
    std::sort(order.begin() + long(stacked), order.end(), before);
    const Deadline late = best.height < INT64_MAX ? deadline : Deadline();
    Placement p = fit.run(order, best.height, frozen, late);
    if (p.height < best.height) best = std::move(p), best.order = name;
  };
  auto size = [](const Buffer& b) { return double(b.size); };
  auto area = [&](const Buffer& b) { return double(b.size) * double(duration(b)); };
  attempt("size", size);
  attempt("nested by start", area, kByStart);
  attempt("nested by end", area, kByEnd);
  attempt("area", area);
  attempt("start", [](const Buffer& b) { return -double(b.lower); });
  attempt("duration", [&](const Buffer& b) { return double(duration(b)); });
  attempt("end", [](const Buffer& b) { return double(b.upper); });
}

// Beyond these a search spends its time on bookkeeping.
constexpr size_t kSearchable = 1500, kAtOnce = 3000;

// One stretch of time. Where everything is too much, what is searched are the buffers alive at the
// hottest moments; the others are laid around what was found. Should they not fit there, more are
// searched once.
class Stretch {
 public:
  Stretch(std::vector<Buffer> buffers, std::vector<int32_t> owner)
      : buffers_(std::move(buffers)), owner_(std::move(owner)) {
    best_.height = INT64_MAX;
  }

  const std::vector<int32_t>& owner() const { return owner_; }
  const Placement& best() const { return best_; }
  int64_t proven() const { return proven_; }

  void greedy(int64_t enough, const Deadline& deadline) {
    const auto start = Clock::now();
    try_orders(buffers_, enough, {}, deadline, best_);
    greedy_ = Clock::now() - start;
  }

  // Until the height is at most `enough`, or proven to be least. Returns the nodes left.
  int64_t search(int64_t enough, int64_t nodes, const Deadline& deadline) {
    const auto is_over = [&] {  // choosing and joining take as long as an order or two
      return is_done(enough) || (deadline && Clock::now() + greedy_ >= *deadline);
    };
    // As it is, then coarser problems: of them more where the search is not of everything.
    const bool large = buffers_.size() > kSearchable;
    const int64_t plain = large ? nodes / 4 : nodes - nodes / 4;
    if (!is_over())
      nodes += search_plain(enough, plain, share(deadline, large ? 0.5 : 0.9)) - plain;
    return is_over() ? nodes : search_joined(enough, nodes, deadline);
  }

 private:
  bool is_done(int64_t enough) const { return best_.height <= std::max(enough, proven_); }

  // As it is, but for what is not hot.
  int64_t search_plain(int64_t enough, int64_t nodes, const Deadline& deadline) {
    choose(kSearchable);
    if (hot_.empty()) return nodes;
    nodes -= improve(enough, nodes / 8, share(deadline, 0.01));
    // Of this height at once, then halfway to it, and halfway again.
    int64_t low = enough;  // less is not asked for, or not to be had
    for (int64_t capacity = enough; nodes > 0 && low < best_.height && !is_past(deadline);
         capacity = low + (best_.height - low) / 2) {
      const int64_t height = best_.height;
      const auto try_hot = [&] {
        return search_once(capacity, enough, nodes - nodes / 4, nodes, share(deadline, 0.75));
      };
      if (try_hot() && best_.height > capacity) {  // it is the others that do not fit
        const size_t before = chosen_.size();
        choose(kAtOnce);
        if (chosen_.size() > before) try_hot();
        break;
      }
      if (best_.height == height) low = std::max(capacity + 1, proven_);
    }
    return nodes;
  }

  // Coarser problems (place_join.h) of four kinds in turn, each for a short while: most of them are
  // solved at once or not at all, and which depends on chance. Nodes count where there is no
  // deadline.
  int64_t search_joined(int64_t enough, int64_t nodes, const Deadline& deadline) {
    constexpr size_t kFewest = 60;
    std::vector<CoarserProblems> kinds;
    for (double fill : {1.0, 0.98, 0.95, 0.9})
      kinds.emplace_back(buffers_, std::llround(fill * double(enough)));
    const auto is_over = [&] { return nodes <= 0 || is_done(enough) || is_past(deadline); };
    const auto charge = [&](int64_t work) {
      if (!deadline) nodes -= work;
    };
    for (size_t k = 0; !kinds.empty() && !is_over();) {
      k %= kinds.size();
      const bool is_new = kinds[k].next(kAtOnce);
      charge(kinds[k].take_work());
      const JoinedBuffers& joined = kinds[k].joined();
      if (!is_new || joined.blocks.size() < kFewest) {
        kinds.erase(kinds.begin() + long(k));
        continue;
      }
      Stretch coarse(joined.blocks, {});
      coarse.greedy(enough, deadline);
      charge(std::ssize(joined.blocks) / 4);
      nodes = coarse.search_shortly(enough, nodes, deadline);
      if (coarse.best_.height < best_.height) {
        best_.height = coarse.best_.height;
        best_.offset = joined.offsets(coarse.best_.offset);
        best_.order = "joined";
      }
      ++k;
    }
    return std::max<int64_t>(nodes, 0);
  }

  // What is hot, and everything where the others did not fit around what was found. Returns the
  // nodes left.
  int64_t search_shortly(int64_t enough, int64_t nodes, const Deadline& deadline) {
    for (size_t most : {kSearchable, kAtOnce}) {
      if (nodes <= 0 || is_done(enough) || is_past(deadline)) break;
      choose(most);
      if (hot_.empty()) continue;  // too many are hot
      const int64_t part = std::min<int64_t>(nodes, 6 * std::ssize(hot_));
      if (!search_once(enough, enough, part, nodes, share(deadline, 0.1))) break;
      if (hot_.size() == buffers_.size()) break;
    }
    return nodes;
  }

  // Whether hot_ was found to fit the capacity with `part` of the nodes, from which it takes what
  // it needed.
  bool search_once(int64_t capacity, int64_t enough, int64_t part, int64_t& nodes,
                   const Deadline& deadline) {
    const SearchLimits limits{deadline ? INT64_MAX : part, deadline};
    const SearchResult found = search_placement(hot_, capacity / grain_, limits);
    if (!deadline) nodes -= std::max<int64_t>(found.nodes, 1);
    if (found.answer == SearchResult::kInfeasible)
      proven_ = std::max(proven_, (capacity / grain_ + 1) * grain_);
    if (found.answer == SearchResult::kFound) lay_around(found.offset, enough, deadline, "search");
    return found.answer == SearchResult::kFound;
  }

  // What is searched, in units of the greatest number that all its sizes are multiples of.
  void choose(size_t most) {
    const int64_t bound = lower_bound_of(buffers_);
    hot_.clear();
    for (int percent : {0, 80, 90, 95, 98, 99, 100}) {
      chosen_ = alive_above(buffers_, std::max<int64_t>(bound * percent / 100, 1));
      if (chosen_.size() <= most) break;
    }
    if (chosen_.size() > most) return;
    grain_ = 0;
    for (int32_t i : chosen_) grain_ = std::gcd(grain_, buffers_[size_t(i)].size);
    for (int32_t i : chosen_) {
      hot_.push_back(buffers_[size_t(i)]);
      hot_.back().size /= grain_;
    }
  }

  int64_t improve(int64_t enough, int64_t nodes, const Deadline& deadline) {
    Placement p;
    p.height = INT64_MAX;
    p.offset.clear();
    for (int32_t i : chosen_) p.offset.push_back(best_.offset[size_t(i)] / grain_);
    p.height = best_.height / grain_;
    const int64_t height = p.height;
    const int64_t used =
        improve_order(hot_, enough / grain_, {deadline ? INT64_MAX : nodes, deadline}, p);
    if (p.height < height) lay_around(p.offset, enough, deadline, "improved");
    return deadline ? 0 : used;
  }

  // The rest around offsets of hot_.
  void lay_around(const std::vector<int64_t>& offset, int64_t enough, const Deadline& deadline,
                  const char* name) {
    std::vector<int64_t> frozen(buffers_.size(), -1);
    for (size_t i = 0; i < hot_.size(); ++i) frozen[size_t(chosen_[i])] = offset[i] * grain_;
    const int64_t height = best_.height;
    try_orders(buffers_, enough, frozen, deadline, best_);
    if (best_.height < height) best_.order = name;
  }

  std::vector<Buffer> buffers_, hot_;
  std::vector<int32_t> owner_;   // of the buffers, outside
  std::vector<int32_t> chosen_;  // of the buffers, those in hot_
  int64_t grain_ = 1, proven_ = 0;
  Clock::duration greedy_{};
  Placement best_;
};

}  // namespace

Placement place(std::span<const Buffer> buffers, const PlaceOptions& options) {
  Placement out;
  out.proven = out.lower_bound = lower_bound_of(buffers);
  out.offset.assign(buffers.size(), 0);
  const int64_t enough = std::max(options.enough, out.lower_bound);
  std::vector<Stretch> stretches;
  for (std::vector<int32_t>& owner : stretches_of(buffers)) {
    std::vector<Buffer> part;
    for (int32_t i : owner) part.push_back(buffers[size_t(i)]);
    stretches.emplace_back(std::move(part), std::move(owner));
    stretches.back().greedy(enough, options.deadline);
  }
  // The tallest first: the others need not be lower than what becomes of it.
  std::stable_sort(stretches.begin(), stretches.end(), [](const Stretch& a, const Stretch& b) {
    return a.best().height > b.best().height;
  });
  int64_t nodes = options.nodes;
  for (size_t k = 0; k < stretches.size(); ++k) {
    Stretch& s = stretches[k];
    const int64_t target = std::max(enough, out.height);
    if (s.best().height > target && options.nodes > 0) {
      // Equal shares for those that may need one.
      const auto rest = std::span(stretches).subspan(k);
      const int64_t needy = std::count_if(rest.begin(), rest.end(), [&](const Stretch& other) {
        return other.best().height > target;
      });
      const int64_t part = nodes / needy;
      nodes -= part;
      nodes += s.search(target, part, share(options.deadline, 1.0 / double(needy)));
    }
    if (s.best().height > out.height) out.height = s.best().height, out.order = s.best().order;
    out.proven = std::max(out.proven, s.proven());
    for (size_t i = 0; i < s.owner().size(); ++i)
      out.offset[size_t(s.owner()[i])] = s.best().offset[i];
  }
  return out;
}

}  // namespace pal
