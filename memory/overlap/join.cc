// Values and scopes renumbered; waits for state.
#include "memory/overlap/join.h"

#include <algorithm>

#include "core/error.h"
#include "core/op.h"
#include "core/order.h"
#include "ops/sums/gates.h"

namespace pal {
namespace {

// By value, the last node that reads it, or reads what may be a window of it.
ByValue<NodeId> last_uses(const Program& p) {
  ByValue<NodeId> last(p.values.size(), kNone);
  for (NodeId n = p.node_count(); n-- > 0;) {
    const Node& node = p.node(n);
    NodeId until = n;
    if (node.op->windows) {
      for (ValueId v : present(node.out)) until = std::max(until, last[v]);
    }
    for (ValueId v : present(node.in)) last[v] = std::max(last[v], until);
  }
  return last;
}

// The program's gate, kNone where it has none.
ValueId gate_of(const Program& p) {
  for (const NamedValue& output : p.outputs) {
    if (output.name == "gate") return output.value;
  }
  return kNone;
}

class Joiner {
 public:
  Joiner(const Program& first, const Program& second)
      : first_(first),
        second_(second),
        out_(first),
        nodes_(first.node_count()),
        last_use_(last_uses(first)),
        gate_of_first_(gate_of(first)),
        gate_of_second_(gate_of_first_ == kNone ? kNone : gate_of(second)),
        value_(second.values.size(), kNone) {}

  Program join() {
    for (NamedValue& in : out_.inputs) in.name = name_in_pair(0, in.name);
    for (NamedValue& output : out_.outputs) output.name = name_in_pair(0, output.name);
    add_scopes();
    join_state();
    for (ValueId v : second_.values.ids()) {
      if (value_[v] == kNone) value_[v] = add(second_.value(v));
    }
    for (NodeId n = 0; n < second_.node_count(); ++n) {
      out_.nodes.push_back(in_pair(second_.node(n)));
      if (n == node_of_gate()) join_gates();
    }
    for (const NamedValue& in : second_.inputs) {
      out_.inputs.push_back({name_in_pair(1, in.name), value_[in.value]});
    }
    for (const NamedValue& output : second_.outputs) {
      out_.outputs.push_back({name_in_pair(1, output.name), value_[output.value]});
    }
    for (const StateSlot& slot : second_.state) end_state(slot);
    return std::move(out_);
  }

 private:
  void add_scopes() {
    std::map<std::string, ScopeId> known;
    for (size_t i = 0; i < out_.scopes.size(); ++i) known.emplace(out_.scopes[i], ScopeId(i));
    for (const std::string& scope : second_.scopes) {
      const auto [at, added] = known.emplace(scope, ScopeId(out_.scopes.size()));
      if (added) out_.scopes.push_back(scope);
      scope_.push_back(at->second);
    }
  }

  // The second's state begins as the first's ends.
  void join_state() {
    for (const StateSlot& slot : second_.state) {
      const StateSlot* before = first_.find_state(slot.name);
      if (!before) continue;
      const TensorSpec &had = first_.value(before->start).spec,
                       &asked = second_.value(slot.start).spec;
      if (!(had == asked)) {
        throw ProgramError("[overlap] state " + slot.name + " is " + to_string(had) +
                           " in the first micro-batch, and " + to_string(asked) + " in the second");
      }
      value_[slot.start] = before->end;
    }
  }
  void end_state(const StateSlot& slot) {
    for (StateSlot& have : out_.state) {
      if (have.name != slot.name) continue;
      have.end = value_[slot.end];
      return;
    }
    StateSlot added = slot;
    added.start = value_[slot.start], added.end = value_[slot.end];
    out_.state.push_back(std::move(added));
  }

  // Of the second, the node that makes its gate.
  NodeId node_of_gate() const {
    return gate_of_second_ == kNone ? kNone : second_.value(gate_of_second_).producer;
  }
  // What the second updates, it updates only where the first's gate is open too.
  void join_gates() {
    const ValueId own = value_[gate_of_second_];
    Node both = out_.nodes.back();
    both.op = &gate_and_op, both.attrs = {};
    both.in = {own, gate_of_first_};
    both.waits = {first_.value(gate_of_first_).producer};
    Value joined = out_.value(own);
    joined.producer = out_.node_count();
    both.out = {value_[gate_of_second_] = out_.values.add(std::move(joined))};
    out_.nodes.push_back(std::move(both));
  }

  ValueId add(Value value) {
    value.scope = scope_[size_t(value.scope)];
    if (value.producer != kNone) {
      const NodeId gate = node_of_gate();
      value.producer += nodes_ + (gate != kNone && value.producer > gate ? 1 : 0);
    }
    return out_.values.add(std::move(value));
  }

  Node in_pair(Node node) {
    node.queue = kSecondQueue, node.scope = scope_[size_t(node.scope)];
    for (auto* side : {&node.in, &node.out}) {
      for (ValueId& v : *side) {
        if (v != kNone) v = value_[v];
      }
    }
    NodeId wait = kNone;
    for (ValueId v : present(node.in)) {
      if (size_t(v) >= first_.values.size()) continue;  // the second's own
      wait = std::max(wait, first_.value(v).producer);
    }
    for (size_t i = 0; node.op->writes_state && i < node.out.size(); ++i) {
      const ValueId old = node.in[size_t(written_operand(*node.op, int(i)))];
      if (old != kNone && size_t(old) < first_.values.size()) wait = std::max(wait, last_use_[old]);
    }
    if (wait != kNone) node.waits = {wait};
    return node;
  }

  const Program &first_, &second_;
  Program out_;
  const NodeId nodes_;  // of the first
  const ByValue<NodeId> last_use_;
  const ValueId gate_of_first_, gate_of_second_;  // the second's is kNone where none is joined
  ByValue<ValueId> value_;                        // of the second: its number in the pair
  std::vector<ScopeId> scope_;
};

}  // namespace

std::string name_in_pair(int part, const std::string& name) {
  return (part == 0 ? "first/" : "second/") + name;
}

Program join_micro_batches(const Program& first, const Program& second) {
  if (queue_count(first) > 1 || queue_count(second) > 1) {
    throw ProgramError("[overlap] a micro-batch that has several queues cannot be one of a pair");
  }
  return Joiner(first, second).join();
}

}  // namespace pal
