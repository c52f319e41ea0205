// Which search when: canonical placements and skylines, and columns, blocks and beams where there
// is nothing to waste.
#include "memory/place/search/search.h"

#include <algorithm>
#include <optional>
#include <random>

#include "core/clock.h"
#include "memory/place/search/beam.h"
#include "memory/place/search/blocks.h"
#include "memory/place/search/canonical.h"
#include "memory/place/search/columns.h"
#include "memory/place/search/skyline.h"

namespace pal {
namespace {

// Whether the buffers fill the capacity to 2 % over their whole time.
bool is_tight(const std::vector<Buffer>& buffers, int64_t capacity) {
  int64_t lower = INT64_MAX, upper = INT64_MIN;
  double area = 0;
  for (const Buffer& b : buffers) {
    lower = std::min(lower, b.lower), upper = std::max(upper, b.upper);
    area += double(b.size) * double(b.upper - b.lower);
  }
  return area >= 0.98 * double(capacity) * (double(upper) - double(lower));
}

}  // namespace

SearchResult search_placement(std::span<const Buffer> buffers, int64_t capacity,
                              const SearchLimits& limits) {
  SearchResult out;
  std::vector<Buffer> alive;
  std::vector<size_t> which;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].lower >= buffers[i].upper || buffers[i].size <= 0) continue;
    alive.push_back(buffers[i]);
    which.push_back(i);
  }
  std::vector<int64_t> found;  // by alive buffer
  SkylineSearch skyline(alive, capacity, limits.deadline);
  CanonicalSearch canonical(alive, capacity, limits.deadline);
  // Blocks only help where there is next to nothing to waste, beams where there is nothing.
  const bool tight = is_tight(alive, capacity), full = fills(alive, capacity);
  std::mt19937_64 random(alive.size());
  std::optional<ColumnSearch> columns;  // made when first asked
  // Restarts with growing budgets: a descent that begins badly rarely recovers.
  int64_t budget = 1000 + int64_t(4 * alive.size()), used = 0;
  for (uint64_t round = 0; out.answer == SearchResult::kGaveUp; ++round) {
    const auto is_over = [&] {
      return limits.nodes <= used || (limits.deadline && Clock::now() >= *limits.deadline);
    };
    if (is_over()) break;
    const auto canonical_run = [&](std::string_view keys, int64_t nodes) {
      const int64_t earlier = canonical.nodes();
      out.answer = canonical.run(keys, std::min(nodes, limits.nodes - used));
      used += canonical.nodes() - earlier;
      if (out.answer == SearchResult::kFound) found = canonical.offset();
    };
    // The first three solve all public hard problems, of up to 450 buffers. The steps of
    // translators like owz. An order that leads there rarely needs more than it takes to come to
    // the last buffer.
    constexpr std::string_view kOrders[] = {"twa", "taw", "wat", "owz", "ewz", "zwt", "swz", "awt"};
    constexpr size_t kFirst[2][5] = {{0, 1, 2, 3, 4}, {3, 1, 4, 0, 2}};
    const auto& first = kFirst[alive.size() > 600];
    if (full) {
      if (round % 4 == 0) canonical_run(kOrders[round / 4 % std::size(kOrders)], budget);
    } else if (round == 0) {
      for (size_t k = 0; k < 5 && out.answer == SearchResult::kGaveUp; ++k)
        canonical_run(kOrders[first[k]], 4000 + int64_t((k == 0 ? 14 : 9) * alive.size()));
    } else {
      canonical_run(kOrders[(round + 4) % std::size(kOrders)], budget);
    }
    if (out.answer != SearchResult::kGaveUp || is_over()) continue;
    const bool lowest = round / 4 % 2 == 1;
    const auto prefer = round < 8 ? Prefer(round % 4) : Prefer::kRandom;
    const int64_t before = skyline.nodes();
    out.answer = skyline.run(prefer, lowest, round, std::min(budget, limits.nodes - used));
    used += skyline.nodes() - before;
    if (out.answer == SearchResult::kFound) found = skyline.offset();
    if (round % 8 == 7) budget *= 2;
    if (out.answer != SearchResult::kGaveUp || !tight || is_over()) continue;
    // Not an answer when these fail, for they guess.
    const Blocks blocks(alive, 2 + int(round % 5), random);
    used += int64_t(alive.size());  // about what joining took
    SkylineSearch rest(blocks.buffers(), capacity, limits.deadline);
    if (rest.run(Prefer(round % 4), lowest, round, std::min(budget, limits.nodes - used)) ==
        SearchResult::kFound) {
      out.answer = SearchResult::kFound;
      found = blocks.offsets(rest.offset());
    }
    used += rest.nodes();
    if (out.answer != SearchResult::kGaveUp || !full) continue;
    // Each doubles its width every fourth round.
    const int width = 1 << std::min<uint64_t>(round / 4, 8);
    const auto take = [&](SearchResult guess, const Blocks* joined) {
      used += guess.nodes;
      if (guess.answer != SearchResult::kFound) return false;
      out.answer = SearchResult::kFound;
      found = joined ? joined->offsets(guess.offset) : std::move(guess.offset);
      return true;
    };
    const auto left = [&] { return SearchLimits{limits.nodes - used, limits.deadline}; };
    if (is_over()) break;
    if (!columns) columns.emplace(alive);
    if (take(columns->run(4 * width, round, left()), nullptr) || is_over()) continue;
    if (take(BeamSearch(alive, capacity).run(32 * width, round, left()), nullptr)) continue;
    if (round % 2 || is_over()) continue;
    take(BeamSearch(blocks.buffers(), capacity).run(32 * width, round, left()), &blocks);
  }
  out.nodes = used;
  if (out.answer == SearchResult::kFound) {
    out.offset.assign(buffers.size(), 0);
    for (size_t i = 0; i < which.size(); ++i) out.offset[which[i]] = found[i];
  }
  return out;
}

}  // namespace pal
