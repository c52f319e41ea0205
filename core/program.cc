// Look-ups, renumbering and permutation of programs.
#include "core/program.h"

#include <charconv>

#include "core/error.h"

namespace pal {

const char* to_string(Role role) {
  static constexpr const char* names[] = {"input", "weight", "weight_gradient", "optimizer_state",
                                          "feature_map", "gradient_map", "statistic", "encoded",
                                          "workspace", "host_copy"};
  return names[size_t(role)];
}

const char* to_string(Phase phase) {
  static constexpr const char* names[] = {"forward", "backward", "update", "recompute",
                                          "encode", "decode", "offload", "reload"};
  return names[size_t(phase)];
}

std::string print_float(double value) {
  char text[32];
  auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

static ValueId find(const std::vector<NamedValue>& list, const std::string& name, const char* kind) {
  for (auto& entry : list) {
    if (entry.name == name) return entry.value;
  }
  throw ProgramError(std::string("the program has no ") + kind + " named " + name);
}
ValueId Program::input(const std::string& name) const { return find(inputs, name, "input"); }
ValueId Program::output(const std::string& name) const { return find(outputs, name, "output"); }

const StateSlot* Program::find_state(const std::string& name) const {
  for (auto& slot : state) {
    if (slot.name == name) return &slot;
  }
  return nullptr;
}

std::string Program::scope_of(const Node& node) const {
  std::string out = scopes[size_t(node.scope)];
  if (node.step != kNone) out += (out.empty() ? "t=" : " t=") + std::to_string(node.step);
  return out;
}

void Program::relink() {
  for (NodeId n = 0; n < node_count(); ++n) {
    for (ValueId v : node(n).out) {
      if (v != kNone) value(v).producer = n;
    }
  }
}

Program permuted(const Program& program, const std::vector<NodeId>& order) {
  if (order.size() != program.nodes.size()) {
    throw ProgramError("an order must list all " + std::to_string(program.nodes.size()) + " nodes");
  }
  Program out = program;
  std::vector<NodeId> place(order.size(), kNone);
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] < 0 || size_t(order[i]) >= order.size() || place[size_t(order[i])] != kNone) {
      throw ProgramError("an order must list every node exactly once");
    }
    place[size_t(order[i])] = NodeId(i);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    out.nodes[i] = program.node(order[i]);
    for (NodeId& wait : out.nodes[i].waits) wait = place[size_t(wait)];
  }
  out.relink();
  return out;
}

std::vector<std::vector<NodeId>> readers_of(const Program& program) {
  std::vector<std::vector<NodeId>> readers(program.values.size());
  for (NodeId n = 0; n < program.node_count(); ++n) {
    for (ValueId v : program.node(n).in) {
      if (v == kNone) continue;
      auto& list = readers[size_t(v)];
      if (list.empty() || list.back() != n) list.push_back(n);
    }
  }
  return readers;
}

}  // namespace pal
