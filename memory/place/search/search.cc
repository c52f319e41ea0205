// Which search when: orders of the canonical search, restarted with growing budgets, and columns
// where there is nothing to waste.
#include "memory/place/search/search.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "memory/place/buffers/load.h"
#include "memory/place/search/canonical.h"
#include "memory/place/search/columns.h"

namespace pal {
namespace {

// The first three solve all public hard problems, of up to 450 buffers. The steps of translators
// like owz. An order that leads there rarely needs more than it takes to come to the last buffer.
constexpr std::string_view kCanonicalOrders[] = {"twa", "taw", "wat", "owz",
                                                 "ewz", "zwt", "swz", "awt"};
// What is tried first, of few buffers and of many.
constexpr size_t kFirst[2][5] = {{0, 1, 2, 3, 4}, {3, 1, 4, 0, 2}};

// None of the buffers is empty.
class Searches {
 public:
  Searches(std::span<const Buffer> buffers, int64_t capacity, const SearchLimits& limits)
      : count_(std::ssize(buffers)),
        limits_(limits),
        canonical_(buffers, capacity, limits.deadline),
        budget_(1000 + 4 * count_) {
    if (fills(buffers, capacity)) columns_.emplace(buffers);
  }

  // Restarts with growing budgets: a descent that begins badly rarely recovers.
  SearchResult run() {
    for (int64_t round = 0; is_on(); ++round) {
      if (columns_)
        search_full(round);
      else if (round == 0)
        try_first();
      else
        try_order(size_t(round) + 4, budget_);
      if (round % 8 == 7) budget_ *= 2;
    }
    return std::move(out_);
  }

 private:
  bool is_on() const {
    return out_.answer == SearchResult::kGaveUp && out_.nodes < limits_.nodes &&
           !is_past(limits_.deadline);
  }

  void try_order(size_t which, int64_t nodes) {
    const int64_t earlier = canonical_.nodes();
    out_.answer = canonical_.run(kCanonicalOrders[which % std::size(kCanonicalOrders)],
                                 std::min(nodes, limits_.nodes - out_.nodes));
    out_.nodes += canonical_.nodes() - earlier;
    if (out_.answer == SearchResult::kFound) out_.offset = canonical_.offset();
  }

  // The budgets suffice for a descent without much backtracking. Where the limit is low a second
  // order has as much of it as the first.
  void try_first() {
    const auto& first = kFirst[count_ > 600];
    for (size_t k = 0; k < std::size(first) && out_.answer == SearchResult::kGaveUp; ++k)
      try_order(first[k], std::min(4000 + (k == 0 ? 14 : 9) * count_, limits_.nodes / 2));
  }

  // Mostly columns, whose width doubles every fourth round.
  void search_full(int64_t round) {
    if (round % 4 == 0) try_order(size_t(round / 4), budget_);
    if (!is_on()) return;
    const int width = 4 << std::min<int64_t>(round / 4, 8);
    SearchResult guess =
        columns_->run(width, uint64_t(round), {limits_.nodes - out_.nodes, limits_.deadline});
    out_.nodes += guess.nodes;
    if (guess.answer != SearchResult::kFound) return;  // no answer: it only guesses
    out_.answer = SearchResult::kFound;
    out_.offset = std::move(guess.offset);
  }

  int64_t count_;
  SearchLimits limits_;
  CanonicalSearch canonical_;
  std::optional<ColumnSearch> columns_;  // where nothing is wasted
  int64_t budget_;
  SearchResult out_;
};

}  // namespace

SearchResult search_placement(std::span<const Buffer> buffers, int64_t capacity,
                              const SearchLimits& limits) {
  const std::vector<int32_t> which = not_empty(buffers);
  std::vector<Buffer> alive;
  for (int32_t i : which) alive.push_back(buffers[size_t(i)]);
  SearchResult out = Searches(alive, capacity, limits).run();
  if (out.answer != SearchResult::kFound) return out;
  std::vector<int64_t> offset(buffers.size());
  for (size_t i = 0; i < which.size(); ++i) offset[size_t(which[i])] = out.offset[i];
  out.offset = std::move(offset);
  return out;
}

}  // namespace pal
