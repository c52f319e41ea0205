// A program on one queue as the schedulers see it: what must come before what, and which bytes
// every node touches, in flat arrays that hold for any order of the nodes.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/memory.h"
#include "core/program.h"
#include "memory/storages/storages.h"

namespace pal {

// Short lists of numbers, one after the other.
class Lists {
 public:
  Lists() = default;
  explicit Lists(const std::vector<std::vector<int32_t>>& lists);
  std::span<const int32_t> operator[](int32_t i) const {
    return {items_.data() + begin_[size_t(i)], items_.data() + begin_[size_t(i) + 1]};
  }
  size_t size() const { return begin_.size() - 1; }  // lists
  size_t items() const { return items_.size(); }

 private:
  std::vector<int32_t> begin_{0}, items_;
};

// By node, the nodes that must come before it, ascending: producers of its operands, and for an
// update the loss and every reader of the old state, also through views. A view of state that is
// read after the state is written is a copy, and may come before or after.
std::vector<std::vector<NodeId>> dependencies_of(const Program& program);

// Storages are those that state and windows make, before any in-place decision: these do not depend
// on the order, but for a value that is gathered twice, which lies where it was gathered first.
struct OrderGraph {
  OrderGraph(const Program& program, std::span<const int64_t> workspace_bytes,
             const StorageOptions& options);

  // An output that may take an operand's bytes, if the operand dies there (storages.h).
  struct Take {
    ValueId now, old;
  };

  const Program& program;
  bool inplace;
  Storages storages;
  Lists before, after;  // by node: direct dependencies, and what depends on it
  Lists touches;        // by node: the transients' storages that it touches
  Lists touchers;       // by storage: the nodes that do, in program order
  Lists takes;          // by node: indices into take
  std::vector<Take> take;
  std::vector<int64_t> size;       // by value: bytes
  std::vector<int64_t> bytes;      // by storage: aligned
  std::vector<char> transient;     // by storage: neither state nor input, on the device
  std::vector<char> kept;          // by storage: alive to the end of the step, once made
  std::vector<int64_t> workspace;  // by node: aligned
  int64_t base = 0;                // state and inputs
  // In-place decisions save the same bytes whenever an operand dies: none of them would put an
  // operand into a storage that is alive already (a stack), and no value is gathered twice.
  bool plain = true;

  NodeId nodes() const { return program.node_count(); }
  // The value is all there is of its storage, but for its own windows.
  bool is_whole(ValueId v) const {
    const StorageId s = storages.of[size_t(v)];
    return storages.offset[size_t(v)] == 0 && storages[s].bytes == size[size_t(v)];
  }
};

// Every node once, and after all that it depends on.
bool is_order(const OrderGraph& graph, const std::vector<NodeId>& order);

}  // namespace pal
