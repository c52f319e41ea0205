// What is alive, and what the step takes, if some maps are made again: counted from a table of the
// step (memory/front/sketch_table.h), without making the program. A count follows from the one
// before it by what changed, and takes some 2 us for a thousand nodes, with copies too.
//
// Maps that share bytes through views are one storage and have one fate. What is counted is what
// insert_clones and stash_bits (memory/recompute/clones.h) would leave: clones run before the first
// gradient that needs them, hold their results until the last that reads them, and read what is
// kept or other clones; a map of which gradients ask a predicate alone, and which no clone reads,
// is kept as bits. Clones that fuse count as one kernel (memory/front/fused_clones.h). Outputs take
// the bytes of operands that die (memory/front/sketch_sums.h). Copies wait for each other on the
// link (memory/front/sketch_link.h): a copy costs no time, and where the link has too much to do it
// frees little. What later passes do is not counted: another order, layouts, stalls.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "memory/front/sketch_link.h"
#include "memory/front/sketch_slots.h"
#include "memory/front/sketch_sums.h"
#include "memory/front/sketch_table.h"
#include "memory/recompute/clones.h"

namespace pal {

enum class Fate : uint8_t {
  keep,
  again,  // made again
  away    // copied to the host and back, while nobody reads it: what may_leave()
};
using Fates = ByStorage<Fate>;

class Sketch {
 public:
  // `view`: with infinite RecomputeOptions::heavy. `order`: in which its nodes will run, where
  // gradients keep theirs.
  Sketch(const StepView& view, std::vector<NodeId> order, const DeviceProfile& device,
         const SketchPasses& passes = {});
  Sketch(const Sketch&) = delete;
  Sketch& operator=(const Sketch&) = delete;

  struct Count {
    int64_t bytes = 0;  // alive at the peak
    double over = 0;    // bytes above the limit, summed over nodes
    double ms = 0;      // added to the step
  };
  Count count(const Fates& fates, int64_t limit);

  // What gradients read is kept; what only clones would read is made again.
  Fates nothing() const;
  // Storages that there is a choice for.
  const std::vector<StorageId>& open() const { return t_.open; }
  // What has at least so many bytes may go away, if it can be copied; before that call, nothing
  // may.
  void let_leave(int64_t least_bytes) { least_away_ = least_bytes; }
  bool may_leave(StorageId s) const { return t_.copy_ticks[s] > 0 && t_.bytes[s] >= least_away_; }
  // Of the last count: whether gradients or clones need it, and whether anything lies above the
  // limit while it waits for them.
  bool is_needed(StorageId s) const;
  bool waits_above(StorageId s);

  Choice choice_of(const Fates& fates) const;
  // Values that leave.
  std::vector<ValueId> away_of(const Fates& fates) const;

 private:
  struct Spans {
    PlaceSpan kept, cloned;  // while it is there, and while the clone's result, or the copy, is
    PlaceSpan bits;
    bool inside = false;  // of a kernel, and never in memory: what would be cloned
    bool operator==(const Spans&) const = default;
  };
  struct Run {              // a node again
    NodeId before = kNone;  // the gradient; kNone: it does not
    bool twice = false;     // its readers are far from each other
    bool operator==(const Run&) const = default;
  };

  void change_to(const Fates& fates);
  void look_at(NodeId n);
  void look_at(ValueId v);
  void set_run(NodeId n, Run now);
  void count_fused(NodeId n, bool runs);
  void mark(StorageId s);
  void mark_share(NodeId n);
  void queue(NodeId n);
  Place clone_place(NodeId n) const { return place_of_clone(t_.position[run_[n].before], n); }
  Spans spans_of(StorageId s) const;
  void hold(const PlaceSpan& was, const PlaceSpan& now, int64_t bytes);
  void settle(StorageId s, const Spans& now);
  void settle_marked();
  void share_anew();
  int64_t shared_at(NodeId n, Place here, bool later) const;

  const SketchTable t_;
  const Program& p_;

  // What the last count was of.
  Fates fates_;
  ByNode<Run> run_;
  ByValue<NodeId> first_, last_;    // that read it after the forward phase, clones at their reader
  ByStorage<int32_t> clone_reads_;  // by clones
  ByStorage<int32_t> inside_;       // of so many kernels, and never in memory
  std::vector<int32_t> missing_;    // by kernel: nodes that do not do what they would have to
  ByStorage<Spans> spans_;
  ByStorage<Spans> sent_;  // of maps that go away: what they would be if copies took no time
  int64_t ticks_ = 0;      // added to the step
  int64_t least_away_ = std::numeric_limits<int64_t>::max();
  SketchSlots slots_;
  SketchSums sums_;
  SketchLink link_;

  // While a count changes.
  std::vector<int32_t> queue_;  // a heap of nodes
  ByNode<char> is_queued_, shares_anew_;
  std::vector<StorageId> marked_;
  ByStorage<char> is_marked_;
  std::vector<NodeId> sharing_;
};

}  // namespace pal
