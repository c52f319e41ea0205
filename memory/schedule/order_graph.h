// A program on one queue as the schedulers see it: what must come before what, and which bytes
// every node touches, in flat arrays that hold for any order of the nodes.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/lists.h"
#include "core/memory.h"
#include "core/program.h"
#include "memory/storages/storages.h"

namespace pal {

// The nodes that must come before a node, ascending: producers of its operands, and for an
// update the loss and every reader of the old state, also through views. A view of state that is
// read after the state is written is a copy, and may come before or after.
ByNode<std::vector<NodeId>> dependencies_of(const Program& program);

// Storages are those that state and windows make, before any in-place decision: these do not depend
// on the order, but for a value that is gathered twice, which lies where it was gathered first.
struct OrderGraph {
  OrderGraph(const Program& program, const ByNode<int64_t>& workspace_bytes,
             const StorageOptions& options);

  // An output that may take an operand's bytes, if the operand dies there (storages.h).
  struct Take {
    ValueId now, old;
  };

  const Program& program;
  bool inplace;
  Storages storages;
  Lists<NodeId, NodeId> before, after;  // direct dependencies, and what depends on it
  Lists<NodeId, StorageId> touches;     // the transients' storages that it touches
  Lists<StorageId, NodeId> touchers;    // the nodes that do, in program order
  Lists<NodeId, int32_t> takes;         // indices into take
  std::vector<Take> take;
  ByValue<int64_t> size;      // bytes
  ByStorage<int64_t> bytes;   // footprint()
  ByStorage<char> transient;  // neither state nor input, on the device
  ByStorage<char> kept;       // alive to the end of the step, once made
  ByNode<int64_t> workspace;  // aligned
  int64_t base = 0;           // state and inputs
  // In-place decisions save the same bytes whenever an operand dies: none of them would put an
  // operand into a storage that is alive already (a stack), and no value is gathered twice.
  bool plain = true;

  NodeId nodes() const { return program.node_count(); }
  // The value is all there is of its storage, but for its own windows.
  bool is_whole(ValueId v) const {
    const StorageId s = storages.of[v];
    return storages.offset[v] == 0 && storages[s].bytes == size[v];
  }
};

// Every node once, and after all that it depends on.
bool is_order(const OrderGraph& graph, const std::vector<NodeId>& order);

}  // namespace pal
