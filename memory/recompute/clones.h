// The nodes that make values again. A clone is a forward node once more, with the same attributes
// (so a random operator draws the same bits), in the recompute phase, just before the first
// backward node that needs it. It reads clones where its operands are recomputed too, and otherwise
// the originals, which are thereby stashed.
#pragma once
#include <vector>

#include "core/op.h"
#include "core/program.h"
#include "memory/recompute/step_view.h"

namespace pal {

// Which nodes run again and before which, in their new order.
struct CloneList {
  struct Clone {
    NodeId reader, original;
    bool operator==(const Clone&) const = default;
  };
  std::vector<Clone> clones;
  Choice needed;  // by value: 1 where a clone's output is read
};

// Readers further apart than `far` nodes get clones of their own, where the node is from_pinned.
// Values that are alive anyway, because a value in the same storage is stashed, are not recomputed.
CloneList list_clones(const StepView& view, Choice choice, NodeId far);

struct Clones {
  Program program;
  int count = 0;      // nodes run again
  int encoded = 0;    // values kept as bits
  Cost cost;          // of what was added
  int64_t bytes = 0;  // the step's footprint, once it was asked for
};

Clones insert_clones(const StepView& view, const CloneList& list);
Clones insert_clones(const StepView& view, Choice choice, NodeId far);
// Stashes bits in the clones' program, and counts what that adds.
void stash_bits(Clones& clones);

// Of echo and what is chosen: clones of nodes whose operands are there anyway serve readers at most
// so far apart.
constexpr NodeId kClonesFar = 1024;

}  // namespace pal
