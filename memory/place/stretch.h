// A stretch of time that shares no buffer with the rest: first-fit orders, rounds on a skyline,
// then searches under a capacity, of the buffers alive at the hottest moments, and of coarser
// problems in which buffers of nearly the same life are one.
#pragma once
#include <cstdint>
#include <vector>

#include "memory/place/buffers/buffer.h"
#include "memory/place/search/limits.h"

namespace pal {

class Stretch {
 public:
  // `owner`: what the buffers are, outside.
  Stretch(std::vector<Buffer> buffers, std::vector<int32_t> owner);

  const std::vector<int32_t>& owner() const { return owner_; }
  const Placement& best() const { return best_; }
  int64_t proven() const { return proven_; }  // no placement is lower

  // The first-fit orders.
  void greedy(int64_t enough, const Deadline& deadline);
  // Rounds on a skyline (rounds.h).
  void go_rounds(int64_t enough, int rounds, const Deadline& deadline);
  // Until the height is at most `enough`, or proven to be least, or the budget is spent. Returns
  // the nodes left.
  int64_t search(int64_t enough, SearchLimits budget);

 private:
  class HotSearch;

  bool is_done(int64_t enough) const { return best_.height <= std::max(enough, proven_); }
  void search_plain(int64_t enough, SearchLimits& budget);
  void search_joined(int64_t enough, SearchLimits& budget);
  void search_shortly(int64_t enough, SearchLimits& budget);

  std::vector<Buffer> buffers_;
  std::vector<int32_t> owner_;
  int64_t proven_ = 0;
  Clock::duration greedy_{};  // what greedy() took
  Placement best_;
};

}  // namespace pal
