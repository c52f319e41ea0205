// Writes a program anew, node by node: what most passes do. They keep, replace and insert nodes in
// schedule order; the numbers in waits and producers come out right.
#pragma once
#include <span>
#include <utility>

#include "core/program.h"

namespace pal {

class Rewriter {
 public:
  // Values keep their numbers; `more_values`, `more_nodes`: how many are expected to be added.
  explicit Rewriter(const Program& program, size_t more_values = 0, size_t more_nodes = 0);
  Rewriter(Program&&, size_t = 0, size_t = 0) = delete;  // it would be gone

  // Each appends a node to the new program and returns its number. The node's waits are numbered as
  // in the old program; ProgramError where one of them is not written yet, or was dropped.
  // A node that is never named is dropped, and its outputs have no producer then.
  NodeId keep(NodeId old) { return replace(old, from_.node(old)); }
  NodeId replace(NodeId old, Node node) { return replace({&old, 1}, std::move(node)); }
  NodeId replace(std::span<const NodeId> old, Node node);  // one node for several
  NodeId insert(Node node) { return replace(std::span<const NodeId>(), std::move(node)); }

  ValueId add(Value value) { return out_.values.add(std::move(value)); }
  // The new program so far. Producers are not set yet.
  const Program& written() const { return out_; }
  Program finish();

 private:
  const Program& from_;
  Program out_;
  ByNode<NodeId> number_;  // of the old program: the number in the new one
};

}  // namespace pal
