// Checks of a whole program, rule by rule.
#include "core/verify.h"

#include <algorithm>

#include "core/error.h"
#include "core/op.h"
#include "core/order.h"

namespace pal {
namespace {

[[noreturn]] void fail(const Program& p, NodeId n, const std::string& what) {
  const Node& node = p.node(n);
  const std::string where = p.scope_of(node);
  throw ProgramError("[" + std::string(node.op->name) + "] " + what + ", at node " +
                     std::to_string(n) + (where.empty() ? "" : " (" + where + ")"));
}

std::string name(ValueId v) { return "%" + std::to_string(v); }

// The values that are there, as the nodes are walked over: inputs and state from the start, which
// no node makes.
class Values {
 public:
  explicit Values(const Program& p) : maker_(p.values.size(), kNone), given_(p.values.size(), 0) {
    auto give = [&](ValueId v, const std::string& what) {
      if (!is_known(v)) throw ProgramError(what + " has no value");
      if (given_[v]++) throw ProgramError(what + " shares value " + name(v));
    };
    for (auto& input : p.inputs) give(input.value, "input " + input.name);
    for (auto& slot : p.state) give(slot.start, "state " + slot.name);
  }

  bool is_known(ValueId v) const { return v >= 0 && size_t(v) < maker_.size(); }
  NodeId maker(ValueId v) const { return maker_[v]; }
  bool is_there(ValueId v) const { return maker_[v] != kNone || given_[v]; }
  void make(ValueId v, NodeId n) { maker_[v] = n; }

 private:
  ByValue<NodeId> maker_;
  ByValue<char> given_;
};

void check_waits(const Program& p) {
  for (NodeId n : p.nodes.ids()) {
    for (NodeId w : p.node(n).waits) {
      if (w >= 0 && w < n) continue;
      fail(p, n, "waits for node " + std::to_string(w) + ", which is not earlier");
    }
  }
}

// Ranks whose collectives came in another order would wait for each other for ever.
void check_collectives(const Program& p) {
  NodeId last = kNone;
  const int queues = queue_count(p);
  for (NodeId n : p.nodes.ids()) {
    const Node& node = p.node(n);
    if (!node.op->collective) continue;
    const bool waits =
        last == kNone || std::find(node.waits.begin(), node.waits.end(), last) != node.waits.end();
    // Once there are several queues no pass reorders one.
    const bool follows = last != kNone && queues > 1 && p.node(last).queue == node.queue;
    if (!waits && !follows) {
      fail(p, n, "does not wait for node " + std::to_string(last) + ", the collective before it");
    }
    last = n;
  }
}

void check_operands(const Program& p, NodeId n, const Values& values, const Order& order) {
  const Node& node = p.node(n);
  for (size_t i = 0; i < node.in.size(); ++i) {
    const ValueId v = node.in[i];
    if (v == kNone) {
      if (place_in_group(*node.op, i) >= node.op->optional_from) continue;
      fail(p, n, "operand " + std::to_string(i) + " is missing");
    }
    if (!values.is_known(v)) {
      fail(p, n, "operand " + std::to_string(i) + " is no value of this program");
    }
    if (!values.is_there(v)) fail(p, n, "reads " + name(v) + " before it is made");
    const NodeId maker = values.maker(v);
    if (maker != kNone && !order.before(maker, n)) {
      fail(p, n,
           "reads " + name(v) + " without waiting for node " + std::to_string(maker) +
               " on queue " + std::to_string(p.node(maker).queue));
    }
  }
}

void check_outputs(const Program& p, NodeId n, Values& values) {
  const Node& node = p.node(n);
  const Specs inferred = infer_specs(*node.op, specs_of(p, node.in), node.attrs);
  if (inferred.size() != node.out.size()) fail(p, n, "has the wrong number of outputs");
  for (size_t i = 0; i < node.out.size(); ++i) {
    const ValueId v = node.out[i];
    if (v == kNone) continue;
    if (!values.is_known(v)) {
      fail(p, n, "output " + std::to_string(i) + " is no value of this program");
    }
    if (values.is_there(v)) fail(p, n, "makes " + name(v) + " again");
    if (p.value(v).producer != n) fail(p, n, name(v) + " does not name it as its producer");
    if (!(inferred[i] == p.value(v).spec)) {
      fail(p, n,
           name(v) + " is " + to_string(p.value(v).spec) + ", the operator makes " +
               to_string(inferred[i]));
    }
    values.make(v, n);
  }
  if (node.op->writes_state != (node.phase == Phase::update)) {
    fail(p, n,
         node.op->writes_state ? "writes state outside the update phase"
                               : "is in the update phase and writes no state");
  }
}

// Once all nodes are walked over. A value whose node was dropped has no producer.
void check_producers(const Program& p, const Values& values) {
  for (auto& out : p.outputs) {
    if (!values.is_known(out.value)) throw ProgramError("output " + out.name + " has no value");
    if (!values.is_there(out.value)) throw ProgramError("output " + out.name + " is never made");
  }
  for (ValueId v : p.values.ids()) {
    if (p.value(v).producer == values.maker(v)) continue;
    throw ProgramError(name(v) + " names node " + std::to_string(p.value(v).producer) +
                       " as its producer, which does not make it");
  }
}

// From each slot's value at end back to its value at start, one update at a time.
void check_state(const Program& p, const Values& values, const Order& order) {
  ByValue<char> reached(p.values.size(), 0);
  const Readers readers(p);
  NodeId loss = kNone;
  for (auto& out : p.outputs) {
    if (out.name == "loss") loss = values.maker(out.value);
  }
  for (auto& slot : p.state) {
    for (ValueId v = slot.end; v != slot.start;) {
      const NodeId writer = values.is_known(v) ? values.maker(v) : kNone;
      if (writer == kNone) {
        throw ProgramError("state " + slot.name + " ends as a value nobody makes");
      }
      const Node& node = p.node(writer);
      if (!node.op->writes_state) fail(p, writer, "is no update and makes the next " + slot.name);
      if (!(p.value(v).spec == p.value(slot.start).spec)) {
        fail(p, writer, "changes the spec of " + slot.name);
      }
      if (loss != kNone && !order.before(loss, writer)) {
        fail(p, writer, "writes " + slot.name + " before the loss exists");
      }
      reached[v] = 1;
      int output = 0;
      while (node.out[size_t(output)] != v) ++output;
      v = node.in[size_t(written_operand(*node.op, output))];
      for (NodeId reader : readers[v]) {
        if (reader == writer || order.before(reader, writer)) continue;
        fail(p, writer,
             "writes " + slot.name + " before node " + std::to_string(reader) + " (" +
                 p.node(reader).op->name + ") has read the old value");
      }
    }
  }
  for (NodeId n : p.nodes.ids()) {
    if (!p.node(n).op->writes_state) continue;
    for (ValueId v : present(p.node(n).out)) {
      if (!reached[v]) fail(p, n, "writes " + name(v) + ", which no state ends as");
    }
  }
}

}  // namespace

void verify(const Program& program) {
  Values values(program);
  check_waits(program);
  check_collectives(program);
  const Order order(program);
  for (NodeId n : program.nodes.ids()) {
    check_operands(program, n, values, order);
    check_outputs(program, n, values);
  }
  check_producers(program, values);
  check_state(program, values, order);
}

}  // namespace pal
