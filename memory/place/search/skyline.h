// Exact placement under a capacity: depth-first search over skylines (Moffitt, MiniMalloc, 2023,
// for sections, their inference, canonical solutions and decomposition; the branching here is by
// valley).
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "core/clock.h"
#include "memory/place/search/search.h"

namespace pal {

// In which order the buffers of a corner are tried.
enum class Prefer { kSize, kArea, kDuration, kLoad, kRandom };

class SkylineSearch {
 public:
  // None of the buffers empty; they must outlive the search.
  SkylineSearch(std::span<const Buffer> buffers, int64_t capacity,
                std::optional<Clock::time_point> deadline);

  // One descent. `lowest`: take the lowest valley rather than the one with the fewest choices.
  // Failures and where they were are remembered from one call to the next.
  SearchResult::Answer run(Prefer prefer, bool lowest, uint64_t seed, int64_t nodes);

  const std::vector<int64_t>& offset() const { return offset_; }
  int64_t nodes() const { return nodes_; }  // of all calls

 private:
  // A section, and the time beside it that is a wall; `from` and `to` bound its valley.
  struct Corner {
    int32_t from = 0, to = 0;
    bool left = true;
    int choices = INT32_MAX;
    int64_t raise = 0;  // the floor above the smallest hole; 0: no hole fits the slack
    int32_t section() const { return left ? from : to - 1; }
  };
  struct Move {
    int32_t buffer;   // -1: a hole
    int32_t section;  // of the hole
    int64_t floor;    // before
  };

  int64_t slack(int32_t s) const { return capacity_ - floor_[size_t(s)] - rest_[size_t(s)]; }
  void number_sections();
  void begin(Prefer prefer, uint64_t seed);
  void count(int32_t buffer, int sign);
  void put(int32_t buffer, int64_t at);
  void raise(int32_t section, int64_t to);
  void undo_to(size_t count_of_moves);
  bool descend(int32_t from, int32_t to);
  bool solve(int32_t from, int32_t to);
  uint64_t hash(int32_t from, int32_t to) const;
  const std::vector<int32_t>& list(const Corner& c) const;
  bool fits(const Corner& c, int32_t buffer) const;
  std::vector<int32_t> candidates(const Corner& c) const;
  Corner choose(int32_t from, int32_t to);
  void weigh(Corner& c, int64_t wall, int64_t far_wall) const;
  int64_t smallest(const Corner& c) const;
  bool can_fill(int64_t gap, int64_t needed, int64_t sum, const Corner& c) const;

  static constexpr size_t kMostFailures = 4'000'000;

  std::span<const Buffer> buffers_;
  int64_t capacity_;
  Clock::time_point deadline_;
  int32_t sections_ = 0;
  std::vector<int32_t> lower_, upper_;  // sections, by buffer
  std::vector<uint64_t> zobrist_;
  std::vector<int64_t> offset_;
  std::vector<char> left_;                           // not placed yet
  std::vector<int64_t> floor_, rest_;                // by section
  std::vector<int32_t> crossing_;                    // by boundary: buffers left on both sides
  std::vector<uint64_t> set_hash_;                   // of the buffers left that start here
  std::vector<std::vector<int32_t>> starts_, ends_;  // by first, by last section
  mutable std::vector<int64_t> sizes_;               // scratch of weigh()
  std::vector<Move> moves_;
  std::unordered_set<uint64_t> failed_;  // states from which there is no way
  std::vector<double> blame_;            // dead ends met, by section
  bool lowest_ = false, gave_up_ = false;
  int64_t nodes_left_ = 0, nodes_ = 0;
  uint64_t visits_ = 0;
};

}  // namespace pal
