// Two sweeps, and where they meet.
#include "memory/place/search/columns.h"

#include <algorithm>

namespace pal {
namespace {

constexpr size_t kMostPairs = 1024;  // of states that are tried at one column
constexpr size_t kMostMeetings = 6;  // columns

}  // namespace

ColumnSearch::ColumnSearch(std::span<const Buffer> buffers)
    : buffers_(buffers.size()), forwards_(buffers, false), backwards_(buffers, true) {}

SearchResult ColumnSearch::run(int width, uint64_t seed, const SearchLimits& limits) {
  SearchResult out;
  const size_t last = forwards_.columns() - 1;
  const auto is_late = [&] { return out.nodes >= limits.nodes || is_past(limits.deadline); };
  out.nodes = forwards_.run(size_t(width), seed, limits);
  if (forwards_.states(last).empty() && !is_late())
    out.nodes += backwards_.run(size_t(width), seed, {limits.nodes - out.nodes, limits.deadline});
  // Where both came, the middle first: there most orders are left.
  std::vector<size_t> meeting;
  for (size_t c = 0; c <= last; ++c) {
    if (!forwards_.states(c).empty() && (c == last || !backwards_.states(last - c).empty()))
      meeting.push_back(c);
  }
  auto from_middle = [&](size_t c) { return c > last / 2 ? c - last / 2 : last / 2 - c; };
  std::sort(meeting.begin(), meeting.end(),
            [&](size_t a, size_t b) { return from_middle(a) < from_middle(b); });
  if (!forwards_.states(last).empty()) meeting = {last};
  for (size_t i = 0; i < std::min(meeting.size(), kMostMeetings) && !is_late(); ++i) {
    if (meet(meeting[i], last - meeting[i], out)) break;
  }
  return out;
}

// The pairs of states of one column, the best first. Whether a pair has an order in common. At the
// last column there is nothing to meet.
bool ColumnSearch::meet(size_t column, size_t back, SearchResult& out) {
  std::vector<char> marked(buffers_, 0);
  const std::vector<int32_t> any(buffers_, 0);
  const auto& left = forwards_.states(column);
  const size_t rights = back > 0 ? backwards_.states(back).size() : 1;
  for (size_t pair = 0; pair < std::min(left.size() * rights, kMostPairs); ++pair) {
    ++out.nodes;
    const auto& from = left[pair % left.size()];
    const size_t right = (pair / left.size() + pair) % rights;
    PqTree both = from.tree;
    if (back > 0 && !both.intersect(backwards_.states(back)[right].tree, marked)) continue;
    const auto order = both.order(any);
    out.answer = SearchResult::kFound, met_ = back > 0;
    out.offset.assign(buffers_, 0);
    forwards_.settle(column, from, order, out.offset);
    if (back > 0) backwards_.settle(back, backwards_.states(back)[right], order, out.offset);
    return true;
  }
  return false;
}

}  // namespace pal
