// Regions of nodes that may run again, and their cheapest part to do so, as one minimum cut: what
// echo.h describes, whatever a stash, a copy in fewer bytes, and running a node again weigh.
#pragma once
#include "memory/passes/forms.h"
#include "memory/recompute/echo_cut.h"
#include "memory/recompute/step_view.h"

namespace pal {

// What may be run again, and when a value is then read after the forward phase, by gradients and by
// clones, which run at their own first use.
struct Reach {
  ByNode<char> candidate;
  ByValue<NodeId> first, last;

  // Needed by the backward pass, if everything that can be is recomputed.
  bool is_target(const StepView& view, ValueId v) const {
    return v != kNone && !view.pinned[v] && first[v] != kNone;
  }
};

// From the last forward node to the first: all that is not heavy and whose readers are at most
// `near` nodes apart.
Reach expand(const StepView& view, NodeId near);

// The weights of a cut, all in one unit, none below 0 or above MinCut::kInfinite. Times are in
// ticks of 2^20 attoseconds, about a picosecond, and none weighs more than kMostTicks, so that sums
// stay far from the ends of 64 bits.
constexpr int64_t kMostTicks = int64_t{1} << 45;  // about 37 s
int64_t ticks_of(double ms);
class CutWeights {
 public:
  virtual ~CutWeights() = default;
  // Keeping a storage.
  virtual int64_t stash(StorageId storage) const = 0;
  // Keeping so many bytes in place of a value; to make and to use them, `moved` bytes are moved.
  virtual int64_t instead(ValueId value, int64_t bytes, double moved) const = 0;
  // Running a node once more.
  virtual int64_t again(NodeId node) const = 0;
};

// The values to recompute. `bits`: in place of values, where they suffice. `forms`: how stashed
// values will be kept; null: as they are.
Choice cut_regions(const StepView& view, const Reach& reach, const CutWeights& weights, bool bits,
                   const Forms* forms);

}  // namespace pal
