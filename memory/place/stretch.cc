// What is searched, in which order and for how long.
#include "memory/place/stretch.h"

#include <algorithm>
#include <cmath>

#include "memory/place/join.h"
#include "memory/place/orders.h"

namespace pal {
namespace {

// Beyond these a search spends its time on bookkeeping.
constexpr size_t kSearchable = 1500, kAtOnce = 3000;

}  // namespace

Stretch::Stretch(std::vector<Buffer> buffers, std::vector<int32_t> owner)
    : buffers_(std::move(buffers)), owner_(std::move(owner)) {
  best_.height = INT64_MAX;
}

void Stretch::greedy(int64_t enough, const Deadline& deadline) {
  const auto start = Clock::now();
  try_orders(buffers_, enough, {}, deadline, best_);
  greedy_ = Clock::now() - start;
}

int64_t Stretch::search(int64_t enough, SearchBudget budget) {
  const auto is_over = [&] {  // choosing and joining take as long as an order or two
    return is_done(enough) || (budget.deadline && Clock::now() + greedy_ >= *budget.deadline);
  };
  // As it is, then coarser problems: of them more where the search is not of everything.
  const bool large = buffers_.size() > kSearchable;
  const int64_t nodes = large ? budget.nodes / 4 : budget.nodes - budget.nodes / 4;
  if (!is_over()) {
    SearchBudget plain{nodes, share(budget.deadline, large ? 0.5 : 0.9)};
    search_plain(enough, plain);
    budget.nodes += plain.nodes - nodes;
  }
  if (!is_over()) search_joined(enough, budget);
  return budget.nodes;
}

bool Stretch::search_hot(HotSearch& hot, int64_t capacity, int64_t enough, int64_t nodes,
                         double part_of_time, SearchBudget& budget) {
  const bool found = hot.run(capacity, enough, nodes, part_of_time, budget, best_);
  proven_ = std::max(proven_, hot.proven());
  return found;
}

// As it is, but for what is not hot: of this height at once, then halfway to it, and halfway again.
void Stretch::search_plain(int64_t enough, SearchBudget& budget) {
  HotSearch hot(buffers_);
  hot.choose(kSearchable);
  if (hot.count() == 0) return;
  int64_t low = enough;  // less is not asked for, or not to be had
  for (int64_t capacity = enough; !budget.is_spent() && low < best_.height;
       capacity = low + (best_.height - low) / 2) {
    const int64_t height = best_.height;
    const auto try_hot = [&] {
      return search_hot(hot, capacity, enough, budget.nodes - budget.nodes / 4, 0.75, budget);
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
void Stretch::search_joined(int64_t enough, SearchBudget& budget) {
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
void Stretch::search_shortly(int64_t enough, SearchBudget& budget) {
  HotSearch hot(buffers_);
  for (size_t most : {kSearchable, kAtOnce}) {
    if (budget.is_spent() || is_done(enough)) break;
    hot.choose(most);
    if (hot.count() == 0) continue;  // too many are hot
    const int64_t nodes = std::min<int64_t>(budget.nodes, 6 * int64_t(hot.count()));
    if (!search_hot(hot, enough, enough, nodes, 0.1, budget)) break;
    if (hot.count() == buffers_.size()) break;
  }
}

}  // namespace pal
