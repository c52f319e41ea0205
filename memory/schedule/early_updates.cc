// Which nodes move with the updates, and how far.
#include "memory/schedule/early_updates.h"

#include <algorithm>

#include "core/op.h"
#include "memory/schedule/order_graph.h"

namespace pal {
namespace {

// By node: made of weight gradients.
ByNode<char> from_gradients(const Program& p) {
  ByNode<char> out(p.nodes.size(), 0);
  for (NodeId n : p.nodes.ids()) {
    for (ValueId v : present(p.node(n).in)) {
      const NodeId producer = p.value(v).producer;
      out[n] |= p.value(v).role == Role::weight_gradient || (producer != kNone && out[producer]);
    }
  }
  return out;
}

bool is_gate(const Program& p, ValueId v) { return p.value(v).role == Role::gate; }

// By node: updates, and nodes made of weight gradients, and gates, that nobody but moving nodes
// reads or waits for.
ByNode<char> moving(const Program& p) {
  const ByNode<char> gradients = from_gradients(p);
  const Readers readers(p);
  ByNode<char> moves(p.nodes.size(), 0);
  ByNode<char> awaited(p.nodes.size(), 0);  // by one that stays
  for (NodeId n = p.node_count(); n-- > 0;) {
    const Node& node = p.node(n);
    bool all = gradients[n];
    for (ValueId v : present(node.out)) all |= is_gate(p, v);
    for (ValueId v : present(node.out)) {
      for (NodeId r : readers[v]) all &= bool(moves[r]);
    }
    moves[n] = (node.op->writes_state || all) && !awaited[n];
    for (NodeId w : node.waits) awaited[w] |= !moves[n];
  }
  return moves;
}

// The option that a gate stands for: clip_norm_gate is clip_norm's.
std::string option_of(const OpDef& gate) {
  const std::string name = gate.name, suffix = "_gate";
  return name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : name;
}

}  // namespace

std::vector<NodeId> early_updates_order(const Program& p) {
  const auto before = dependencies_of(p);
  const ByNode<char> moves = moving(p);
  ByNode<NodeId> behind(p.nodes.size());  // the node that stays, after which this one runs
  std::vector<std::vector<NodeId>> after(p.nodes.size() + 1);  // [0]: before everything
  for (NodeId n : p.nodes.ids()) {
    behind[n] = n;
    if (!moves[n]) continue;
    NodeId last = kNone;
    for (NodeId d : before[n]) last = std::max(last, behind[d]);
    behind[n] = last;
    after[last + 1].push_back(n);
  }
  std::vector<NodeId> order = after[0];
  for (NodeId n : p.nodes.ids()) {
    if (!moves[n]) order.push_back(n);
    order.insert(order.end(), after[size_t(n) + 1].begin(), after[size_t(n) + 1].end());
  }
  return order;
}

int updates_moved(const Program& p, const std::vector<NodeId>& order) {
  int moved = 0;
  NodeId first_later = p.node_count();  // of the nodes that come later, the first in the program
  for (size_t i = order.size(); i-- > 0;) {
    const NodeId n = order[i];
    if (p.node(n).op->writes_state)
      moved += first_later < n;
    else
      first_later = std::min(first_later, n);
  }
  return moved;
}

std::string early_updates_blocked(const Program& p) {
  const ByNode<char> gradients = from_gradients(p);
  for (const Node& node : p.nodes) {
    if (!node.op->writes_state) continue;
    for (ValueId v : present(node.in)) {
      const NodeId producer = p.value(v).producer;
      if (is_gate(p, v) && producer != kNone && gradients[producer]) {
        return "early updates blocked by " + option_of(*p.node(producer).op);
      }
    }
  }
  return "";
}

}  // namespace pal
