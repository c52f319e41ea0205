// What the methods of recomputation need to know of a step: which nodes read a value after the
// forward phase, what stays alive anyway, and what each forward node costs.
#pragma once
#include <cstdint>
#include <vector>

#include "core/op.h"
#include "core/program.h"
#include "memory/recompute/options.h"

namespace pal {

// 1 where the backward pass is to read a clone's output.
using Choice = ByValue<char>;

// What the methods need to know of a program. Forward nodes are those of the forward phase.
struct StepView {
  explicit StepView(const Program& program, const RecomputeOptions& options = {});

  const Program& program;
  Readers readers;
  // The first and last node after the forward phase that reads it; kNone: no such node.
  ByValue<NodeId> first_use, last_use;
  // Alive whatever is recomputed (state, inputs, outputs, their views, and what updates
  // read), or gathered again for the backward pass, so reading it again costs nothing.
  ByValue<char> pinned;
  ByValue<StorageId> storage;        // values that share bytes through views
  ByStorage<int64_t> storage_bytes;  // aligned
  ByNode<Cost> cost;                 // of those of the forward phase
  ByNode<char> heavy;
  // A forward node whose operands the backward pass still finds:
  // none is state that an update overwrites before the last backward node has run.
  ByNode<char> clonable;

  bool stays(ValueId v) const { return v == kNone || pinned[v]; }
  // All operands are there anyway (a mask drawn from the step's scalars, an embedding's rows): such
  // a node can be run again for each group of readers that are far from each other.
  bool from_pinned(NodeId n) const;
  void set_heavy(double flops_per_byte);
};

}  // namespace pal
