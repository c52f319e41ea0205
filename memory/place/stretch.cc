// What is searched, in which order and for how long.
#include "memory/place/stretch.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "memory/place/buffers/load.h"
#include "memory/place/join.h"
#include "memory/place/orders.h"
#include "memory/place/rounds.h"
#include "memory/place/search/search.h"

namespace pal {
namespace {

// Beyond these a search spends its time on bookkeeping.
constexpr size_t kSearchable = 1500, kAtOnce = 3000;

}  // namespace

// Search under a capacity of the buffers that are alive at the hottest moments: all of them where
// they are few. The others are laid around what was found.
class Stretch::HotSearch {
 public:
  explicit HotSearch(Stretch& stretch) : stretch_(stretch), buffers_(stretch.buffers_) {}

  // Chooses what is searched: at most `most` buffers, of ever hotter moments; none where too many
  // are alive even at the hottest.
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
  size_t count() const { return hot_.size(); }

  // Whether what was chosen fits the capacity, as far as `nodes` of the budget tell. If so, the
  // stretch's best is what it makes of all buffers, where that is lower.
  bool run(int64_t capacity, int64_t enough, int64_t nodes, double part_of_time,
           SearchLimits& budget) {
    const Deadline deadline = share(budget.deadline, part_of_time);
    const SearchResult found =
        search_placement(hot_, capacity / grain_, {deadline ? INT64_MAX : nodes, deadline});
    budget.charge(std::max<int64_t>(found.nodes, 1));
    if (found.answer == SearchResult::kInfeasible)
      stretch_.proven_ = std::max(stretch_.proven_, (capacity / grain_ + 1) * grain_);
    if (found.answer != SearchResult::kFound) return false;
    std::vector<int64_t> frozen(buffers_.size(), -1);
    for (size_t i = 0; i < hot_.size(); ++i) frozen[size_t(chosen_[i])] = found.offset[i] * grain_;
    const int64_t height = stretch_.best_.height;
    try_orders(buffers_, enough, frozen, deadline, stretch_.best_);
    if (stretch_.best_.height < height) stretch_.best_.order = "search";
    return true;
  }

 private:
  Stretch& stretch_;
  const std::vector<Buffer>& buffers_;
  std::vector<Buffer> hot_;      // in units of grain_
  std::vector<int32_t> chosen_;  // of the buffers, those in hot_
  int64_t grain_ = 1;            // all sizes in hot_ were multiples of it
};

Stretch::Stretch(std::vector<Buffer> buffers, std::vector<int32_t> owner)
    : buffers_(std::move(buffers)), owner_(std::move(owner)) {
  best_.height = INT64_MAX;
}

void Stretch::greedy(int64_t enough, const Deadline& deadline) {
  const auto start = Clock::now();
  try_orders(buffers_, enough, {}, deadline, best_);
  greedy_ = Clock::now() - start;
}

void Stretch::go_rounds(int64_t enough, int rounds, const Deadline& deadline) {
  try_rounds(buffers_, enough, rounds, deadline, best_);
}

int64_t Stretch::search(int64_t enough, SearchLimits budget) {
  const auto is_over = [&] {  // choosing and joining take as long as an order or two
    return is_done(enough) || (budget.deadline && Clock::now() + greedy_ >= *budget.deadline);
  };
  // As it is, then coarser problems: of them more where the search is not of everything.
  const bool large = buffers_.size() > kSearchable;
  const int64_t nodes = large ? budget.nodes / 4 : budget.nodes - budget.nodes / 4;
  if (!is_over()) {
    SearchLimits plain{nodes, share(budget.deadline, large ? 0.5 : 0.9)};
    search_plain(enough, plain);
    budget.nodes += plain.nodes - nodes;
  }
  if (!is_over()) search_joined(enough, budget);
  return budget.nodes;
}

// As it is, but for what is not hot: of this height at once, then halfway to it, and halfway again.
void Stretch::search_plain(int64_t enough, SearchLimits& budget) {
  HotSearch hot(*this);
  hot.choose(kSearchable);
  if (hot.count() == 0) return;
  int64_t low = enough;  // less is not asked for, or not to be had
  for (int64_t capacity = enough; !budget.is_spent() && low < best_.height;
       capacity = low + (best_.height - low) / 2) {
    const int64_t height = best_.height;
    const auto try_hot = [&] {
      return hot.run(capacity, enough, budget.nodes - budget.nodes / 4, 0.75, budget);
    };
    if (try_hot() && best_.height > capacity) {  // it is the others that do not fit
      const size_t before = hot.count();
      hot.choose(kAtOnce);
      if (hot.count() > before) try_hot();
      break;
    }
    if (best_.height == height) low = std::max(capacity + 1, proven_);
  }
}

// Coarser problems (join.h) of four kinds in turn, each for a short while: most of them are solved
// at once or not at all, and which depends on chance.
void Stretch::search_joined(int64_t enough, SearchLimits& budget) {
  constexpr size_t kFewest = 60;
  std::vector<CoarserProblems> kinds;
  for (double fill : {1.0, 0.98, 0.95, 0.9})
    kinds.emplace_back(buffers_, std::llround(fill * double(enough)));
  for (size_t k = 0; !kinds.empty() && !budget.is_spent() && !is_done(enough);) {
    k %= kinds.size();
    const bool is_new = kinds[k].next(kAtOnce);
    budget.charge(kinds[k].take_work());
    const JoinedBuffers& joined = kinds[k].joined();
    if (!is_new || joined.blocks.size() < kFewest) {
      kinds.erase(kinds.begin() + long(k));
      continue;
    }
    Stretch coarse(joined.blocks, {});
    coarse.greedy(enough, budget.deadline);
    budget.charge(std::ssize(joined.blocks) / 4);
    coarse.search_shortly(enough, budget);
    if (coarse.best_.height < best_.height) {
      best_.height = coarse.best_.height;
      best_.offset = joined.offsets(coarse.best_.offset);
      best_.order = "joined";
    }
    ++k;
  }
  budget.nodes = std::max<int64_t>(budget.nodes, 0);
}

// What is hot, and everything where the others did not fit around what was found.
void Stretch::search_shortly(int64_t enough, SearchLimits& budget) {
  HotSearch hot(*this);
  for (size_t most : {kSearchable, kAtOnce}) {
    if (budget.is_spent() || is_done(enough)) break;
    hot.choose(most);
    if (hot.count() == 0) continue;  // too many are hot
    const int64_t nodes = std::min<int64_t>(budget.nodes, 6 * int64_t(hot.count()));
    if (!hot.run(enough, enough, nodes, 0.1, budget)) break;
    if (hot.count() == buffers_.size()) break;
  }
}

}  // namespace pal
