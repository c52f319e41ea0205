// Where few bytes cross the forward phase, and the blocks between.
//
// At a border the step falls in two: what is made before it and read after it are the few values
// that cross it, and in the backward phase all gradients that read what was made after it come
// before those that read what was made before it. So a block's values can be made again from the
// borders alone, right when its gradients are due. Values that live through a large part of the
// forward phase (an encoder's output), and what cannot be made again, belong to no block and are
// kept.
#pragma once
#include <vector>

#include "memory/recompute/step_view.h"

namespace pal {

struct Segments {
  struct Border {
    NodeId after = kNone;  // the last forward node of the block before it
    NodeId later = kNone;  // the first backward node that belongs to the block before it
    std::vector<StorageId> storages;
    int64_t bytes = 0;
  };
  std::vector<Border> borders;  // ascending; block k lies before border k, the last after all
  ByStorage<char> kept;         // through all the step: no block's, no border's

  size_t blocks() const { return borders.size() + 1; }
  size_t block_of_forward(NodeId node) const;
  size_t block_of_backward(NodeId node) const;
};

// Borders so that a block takes at least one `most`th of the forward phase's time (`node_ms` by
// node); none where the step has no such places. Narrow ones come first; no storage crosses two.
Segments find_segments(const StepView& view, const ByNode<double>& node_ms, size_t most);

}  // namespace pal
