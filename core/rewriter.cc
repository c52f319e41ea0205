// Appending and renumbering.
#include "core/rewriter.h"

#include "core/error.h"

namespace pal {

Rewriter::Rewriter(const Program& program, size_t more_values, size_t more_nodes)
    : from_(program), out_(without_nodes(program, more_values)), number_(program.nodes.size()) {
  out_.nodes.reserve(program.nodes.size() + more_nodes);
}

NodeId Rewriter::replace(std::span<const NodeId> old, Node node) {
  for (NodeId& wait : node.waits) {
    if (wait == kNone || number_[wait] == kNone) {
      throw ProgramError("[rewriter] a node waits for one that is not written yet, or was dropped");
    }
    wait = number_[wait];
  }
  const NodeId now = out_.nodes.add(std::move(node));
  for (NodeId n : old) number_[n] = now;
  return now;
}

Program Rewriter::finish() {
  out_.relink();
  return std::move(out_);
}

}  // namespace pal
