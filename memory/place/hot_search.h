// Search under a capacity of the buffers that are alive at the hottest moments: all of them where
// they are few. The others are laid around what was found.
#pragma once
#include <cstdint>
#include <vector>

#include "memory/place/buffers/buffer.h"
#include "memory/place/buffers/deadline.h"

namespace pal {

// A budget of nodes, which only counts where there is no deadline.
struct SearchBudget {
  int64_t nodes = 0;
  Deadline deadline = {};
  bool is_spent() const { return nodes <= 0 || is_past(deadline); }
  void charge(int64_t work) {
    if (!deadline) nodes -= work;
  }
};

class HotSearch {
 public:
  // The buffers must outlive this.
  explicit HotSearch(const std::vector<Buffer>& buffers) : buffers_(buffers) {}

  // Chooses what is searched: at most `most` buffers, of ever hotter moments; none where too many
  // are alive even at the hottest.
  void choose(size_t most);
  size_t count() const { return hot_.size(); }

  // Whether what was chosen fits the capacity, as far as `nodes` of the budget tell. If so, `best`
  // is what it makes of all buffers, where that is lower.
  bool run(int64_t capacity, int64_t enough, int64_t nodes, double part_of_time,
           SearchBudget& budget, Placement& best);
  int64_t proven() const { return proven_; }  // no placement is lower

 private:
  void lay_around(const std::vector<int64_t>& offset, int64_t enough, const Deadline& deadline,
                  Placement& best) const;

  const std::vector<Buffer>& buffers_;
  std::vector<Buffer> hot_;      // in units of grain_
  std::vector<int32_t> chosen_;  // of the buffers, those in hot_
  int64_t grain_ = 1;            // all sizes in hot_ were multiples of it
  int64_t proven_ = 0;
};

}  // namespace pal
