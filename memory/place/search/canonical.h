// Exact placement under a capacity, from below: depth-first search over canonical placements
// (Moffitt, MiniMalloc, ASPLOS 2023).
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "memory/place/buffers/buffer.h"
#include "memory/place/search/limits.h"

namespace pal {

class CanonicalSearch {
 public:
  // None of the buffers empty; they must outlive the search.
  CanonicalSearch(std::span<const Buffer> buffers, int64_t capacity, const Deadline& deadline);

  // One descent of at most `nodes`, of 2000 numbers read or written each. Of buffers that
  // could lie equally low the first by these keys (at most four) is tried first, the larger value
  // first: t most bytes left in a section, a area, w time alive, z size, o buffers alive with it, e
  // end; s start, the smaller first.
  SearchResult::Answer run(std::string_view keys, int64_t nodes);

  const std::vector<int64_t>& offset() const { return offset_; }
  int64_t nodes() const { return nodes_; }  // of all calls

 private:
  // Buffers left whose lives share no section with those of another part, in the order to be tried.
  struct Part {
    int32_t from, to;  // sections
    std::vector<int32_t> left;
  };
  struct Choice {
    int64_t at;
    int32_t rank, buffer;  // rank: the place among the part's
  };
  // One buffer is placed at each level, then what this leaves.
  struct Level {
    const Part* part = nullptr;
    size_t begin = 0, next = 0, end = 0;  // its choices, and the next to take
    uint64_t state = 0;                   // what is left, as a key
    // The choice that is taken:
    size_t mark = 0;   // the moves before it
    bool last = true;  // no other will do where it fails
    int64_t at = 0;    // where, and the rank there, the levels below may begin
    int32_t rank = 0;
    const Part* parts = nullptr;  // what it left; `done` of them are placed
    size_t count = 0, done = 0;
    std::vector<Part> own = {};  // where those are not the level's part
  };
  enum class Opened : uint8_t { kPlaced, kFailed, kChoices };
  // What was before.
  struct Low {
    int32_t buffer;
    int64_t low;
  };
  struct Floor {
    int32_t section, lowest;
    int64_t floor;
  };
  struct Move {
    int32_t buffer;
    size_t lows, floors;  // sizes before
  };

  void number_sections();
  void begin();
  void sort(Part& part);
  bool descend(const Part& all);
  Opened open(Level& level, int64_t lowest, int32_t first);
  bool choose(Level& level);
  bool choose_again(Level& level);
  void cut(Level& level, int32_t first, int32_t last);
  bool put(int32_t buffer, int64_t at);
  bool lift(int32_t section, int64_t least, int32_t beside);
  void undo_to(size_t count_of_moves);

  static constexpr int64_t kPlaced = INT64_MAX / 2;        // the low_ of those that are
  static constexpr int64_t kNode = 2000, kLook = 200'000;  // work
  static constexpr size_t kMostFailures = size_t{1} << 21;

  std::span<const Buffer> buffers_;
  int64_t capacity_;
  Clock::time_point deadline_;
  int32_t sections_ = 0;
  std::vector<int32_t> lower_, upper_;  // sections, by buffer
  std::vector<int32_t> kind_;           // the first buffer that is alike
  std::vector<int64_t> size_;
  std::vector<std::vector<int32_t>> beside_;  // by buffer: those alive with it
  std::vector<std::vector<int32_t>> of_;      // by section: those alive
  std::vector<int64_t> offset_, low_;         // by buffer: where it is, and the least it can have
  std::vector<int64_t> floor_, rest_;  // by section: the least low_ of those left, and their sizes
  std::vector<int32_t> lowest_;        // by section: one of those left that lie at its floor
  std::vector<int32_t> crossing_;      // by boundary: buffers left on both sides
  std::vector<Low> lows_;              // to undo
  std::vector<Floor> floors_;
  std::vector<Move> moves_;
  std::vector<Choice> choices_;   // of all levels
  std::vector<uint64_t> failed_;  // by the last bits of the state; a later failure replaces
  std::string_view keys_;
  bool gave_up_ = false;
  int64_t work_ = 0, most_work_ = 0, next_look_ = 0;  // numbers read or written
  int64_t nodes_ = 0;
};

}  // namespace pal
