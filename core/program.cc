// Look-ups, renumbering and permutation of programs.
#include "core/program.h"

#include <numeric>
#include <utility>

#include "core/error.h"

namespace pal {

const char* to_string(Role role) {
  static constexpr const char* names[] = {
      "input",     "weight",  "weight_gradient", "optimizer_state", "feature_map", "gradient_map",
      "statistic", "encoded", "workspace",       "host_copy",       "gate"};
  return names[size_t(role)];
}

const char* to_string(Phase phase) {
  static constexpr const char* names[] = {"forward", "backward", "update",  "recompute",
                                          "encode",  "decode",   "offload", "reload"};
  return names[size_t(phase)];
}

static ValueId find(const std::vector<NamedValue>& list, const std::string& name,
                    const char* kind) {
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
  std::string out = scopes[node.scope];
  if (node.step != kNone) out += (out.empty() ? "t=" : " t=") + std::to_string(node.step);
  return out;
}

void Program::relink() {
  for (Value& value : values) value.producer = kNone;
  for (NodeId n : nodes.ids()) {
    for (ValueId v : present(node(n).out)) value(v).producer = n;
  }
}

Program without_nodes(const Program& program, size_t more_values) {
  Program out{.values = {},
              .nodes = {},
              .state = program.state,
              .inputs = program.inputs,
              .outputs = program.outputs,
              .scopes = program.scopes};
  out.values.reserve(program.values.size() + more_values);
  out.values.assign(program.values.begin(), program.values.end());
  return out;
}

Program permuted(const Program& program, const std::vector<NodeId>& order) {
  if (order.size() != program.nodes.size()) {
    throw ProgramError("an order must list all " + std::to_string(program.nodes.size()) + " nodes");
  }
  Program out = without_nodes(program);
  out.nodes.reserve(order.size());
  ByNode<NodeId> number(order.size(), kNone);
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] < 0 || size_t(order[i]) >= order.size() || number[order[i]] != kNone) {
      throw ProgramError("an order must list every node exactly once");
    }
    number[order[i]] = NodeId(i);
  }
  for (NodeId n : order) {
    out.nodes.push_back(program.node(n));
    for (NodeId& wait : out.nodes.back().waits) wait = number[wait];
  }
  out.relink();
  return out;
}

bool same_step(const Program& a, const Program& b) {
  const auto same_node = [](const Node& x, const Node& y) {
    return x.op == y.op && x.in == y.in && x.out == y.out && x.phase == y.phase &&
           x.queue == y.queue && x.waits == y.waits && x.scope == y.scope && x.step == y.step &&
           x.attrs == y.attrs;
  };
  const auto same_value = [](const Value& x, const Value& y) { return x.spec == y.spec; };
  return std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), same_node) &&
         std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(), same_value);
}

Readers::Readers(const Program& program) : begin_(program.values.size() + 1, 0) {
  auto each_read = [&](auto use) {
    ByValue<NodeId> last(program.values.size(), kNone);
    for (NodeId n : program.nodes.ids()) {
      for (ValueId v : present(program.node(n).in)) {
        if (std::exchange(last[v], n) != n) use(v, n);
      }
    }
  };
  each_read([&](ValueId v, NodeId) { ++begin_[v + 1]; });
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  nodes_.resize(begin_.back());
  ByValue<size_t> end(begin_.begin(), begin_.end() - 1);
  each_read([&](ValueId v, NodeId n) { nodes_[end[v]++] = n; });
}

}  // namespace pal
