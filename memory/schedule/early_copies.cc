// They wait for nothing.
#include "memory/schedule/early_copies.h"

#include <algorithm>
#include <vector>

#include "core/op.h"

namespace pal {
namespace {

bool is_copy(const Node& node, const ByValue<char>& state) {
  if (!takes_groups(*node.op) || node.op->writes_state || node.phase != Phase::forward ||
      !node.waits.empty()) {
    return false;
  }
  return std::ranges::all_of(node.in, [&](ValueId v) { return v != kNone && state[v]; });
}

}  // namespace

std::optional<Program> early_copies(const Program& program, std::string* note) {
  ByValue<char> state(program.values.size(), 0);
  for (const StateSlot& slot : program.state) state[slot.start] = 1;
  // Those of the same operator and attributes beside each other.
  std::vector<std::vector<NodeId>> kinds;
  NodeId first = kNone;
  for (NodeId n : program.nodes.ids()) {
    const Node& node = program.node(n);
    if (!is_copy(node, state)) continue;
    if (first == kNone) first = n;
    const auto kind = std::ranges::find_if(kinds, [&](const std::vector<NodeId>& nodes) {
      const Node& other = program.node(nodes.front());
      return other.op == node.op && other.attrs == node.attrs;
    });
    kind == kinds.end() ? kinds.push_back({n}) : kind->push_back(n);
  }
  std::vector<NodeId> order;
  ByNode<char> moved(program.nodes.size(), 0);
  for (NodeId n : program.nodes.ids()) {
    if (n == first) {
      for (const std::vector<NodeId>& nodes : kinds) {
        order.insert(order.end(), nodes.begin(), nodes.end());
        for (NodeId m : nodes) moved[m] = 1;
      }
    }
    if (!moved[n]) order.push_back(n);
  }
  if (std::ranges::is_sorted(order)) return {};
  if (note) {
    const auto copies = std::ranges::count(moved, char(1));
    *note = std::to_string(copies) + " copies of weights made together";
  }
  return permuted(program, order);
}

}  // namespace pal
