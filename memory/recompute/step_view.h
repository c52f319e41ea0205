// What the methods of recomputation need to know of a step: who reads what after the forward phase,
// what stays alive anyway, and what each forward node costs.
#pragma once
#include <cstdint>
#include <vector>

#include "core/op.h"
#include "core/program.h"
#include "memory/recompute/options.h"

namespace pal {

// By value: 1 where the backward pass is to read a clone's output.
using Choice = std::vector<char>;

// Forward nodes are those of the forward phase.
struct StepView {
  explicit StepView(const Program& program, const RecomputeOptions& options = {});

  const Program& program;
  Readers readers;
  // By value: the first and last node after the forward phase that reads it; kNone: no such node.
  std::vector<NodeId> first_use, last_use;
  // By value: alive whatever is recomputed (state, inputs, outputs, their views, and what updates
  // read), so reading it again costs nothing.
  std::vector<char> pinned;
  std::vector<int32_t> storage;        // by value: values that share bytes through views
  std::vector<int64_t> storage_bytes;  // by storage, aligned
  std::vector<Cost> cost;              // by node, of those of the forward phase
  double heavy;                        // flops a byte from which a node is compute-heavy
  // By node: a forward node on the compute queue whose operands the backward pass still finds:
  // none is state that an update overwrites before the last backward node has run.
  std::vector<char> clonable;

  bool stays(ValueId v) const { return v == kNone || pinned[size_t(v)]; }
  // All operands are there anyway (a mask drawn from the step's scalars, an embedding's rows): such
  // a node can be run again for each group of readers that are far from each other.
  bool from_pinned(NodeId n) const;
  // A forward node of at least this many flops for each byte that it moves.
  bool is_heavy(NodeId n, double flops_per_byte) const;
};

}  // namespace pal
