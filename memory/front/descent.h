// Fates of maps that keep a step to so many bytes for little time, found by changing one fate at a
// time and counting again (memory/front/sketch.h).
//
// lower() changes, while anything lies above the limit, what takes away most of that for the time
// that it costs. raise() takes back what is not needed. renew() sends all maps of a window of the
// step back to being made again and does both anew there, and keeps what is better; then the next
// window. What was worth most before a change is looked at first after it, so that few are counted
// for each (lazy greedy; Minoux 1978).
//
// Maps of a group change together: in a step of many nodes, what one operator of one layer makes at
// time steps that follow each other. Nothing depends on a clock, and ties go to the group that is
// made first.
#pragma once
#include <cstdint>
#include <vector>

#include "memory/front/sketch.h"

namespace pal {

// Less above the limit, or, of equals, in less time.
bool is_better(const Sketch::Count& a, const Sketch::Count& b);

class Descent {
 public:
  using Group = std::vector<StorageId>;
  Descent(Sketch& sketch, std::vector<Group> groups);

  const Fates& fates() const { return fates_; }
  const Sketch::Count& now() const { return now_; }
  int64_t counts() const { return counts_; }
  void start_from(const Fates& fates, int64_t limit);

  // Whether nothing lies above the limit in the end.
  bool lower(int64_t limit) { return lower(limit, all()); }
  void raise(int64_t limit) { raise(limit, all()); }
  // Over windows of so many groups; until it has counted so often, or for a round in vain.
  void renew(int64_t limit, size_t window, int64_t most_counts);

 private:
  struct Range {
    size_t begin, end;
  };
  struct Move {
    size_t group;
    Fate to;
    double worth = 0;
    int round = 0;  // of changes, when it was counted
    bool operator<(const Move& other) const {
      return worth != other.worth ? worth < other.worth : group > other.group;
    }
  };
  Sketch::Count count(int64_t limit);
  Range all() const { return {0, groups_.size()}; }
  Fate fate_of(size_t group) const { return fates_[groups_[group].front()]; }
  bool may_leave(size_t group) const;
  void change(size_t group, Fate to);
  Sketch::Count tried(size_t group, Fate to, int64_t limit);
  std::vector<Move> moves(Range range, bool lowers) const;
  double worth(const Move& move, int64_t limit);
  bool lower(int64_t limit, Range range);
  void raise(int64_t limit, Range range);

  Sketch& sketch_;
  const std::vector<Group> groups_;
  Fates fates_;
  Sketch::Count now_;
  int64_t counts_ = 0;
};

// At most about so many groups, in the order in which they are made: each map by itself where they
// are no more.
std::vector<Descent::Group> groups_of(const Sketch& sketch, const StepView& view, size_t most);

}  // namespace pal
