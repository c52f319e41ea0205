// Checks of a whole program, rule by rule.
#include "core/verify.h"

#include <optional>

#include "core/error.h"
#include "core/op.h"
#include "core/order.h"
#include "core/prepare.h"

namespace pal {
namespace {

class Verifier {
 public:
  explicit Verifier(const Program& p) : p_(p) {}

  void run() {
    starts();
    for (NodeId n = 0; n < p_.node_count(); ++n) waits(n);
    order_.emplace(p_);
    for (NodeId n = 0; n < p_.node_count(); ++n) {
      operands(n);
      outputs(n);
    }
    state();
  }

 private:
  [[noreturn]] void fail(NodeId n, const std::string& what) const {
    const Node& node = p_.node(n);
    std::string where = p_.scope_of(node);
    throw ProgramError("[" + std::string(node.op->name) + "] " + what + ", at node " +
                       std::to_string(n) + (where.empty() ? "" : " (" + where + ")"));
  }
  static std::string name(ValueId v) { return "%" + std::to_string(v); }
  bool known(ValueId v) const { return v >= 0 && size_t(v) < p_.values.size(); }

  // Inputs and state are there from the start, and nobody makes them.
  void starts() {
    made_.assign(p_.values.size(), kNone);
    present_.assign(p_.values.size(), 0);
    auto start = [&](ValueId v, const std::string& what) {
      if (!known(v)) throw ProgramError(what + " has no value");
      if (present_[v]++) throw ProgramError(what + " shares value " + name(v));
    };
    for (auto& input : p_.inputs) start(input.value, "input " + input.name);
    for (auto& slot : p_.state) start(slot.start, "state " + slot.name);
  }

  void waits(NodeId n) const {
    const Node& node = p_.node(n);
    for (NodeId w : node.waits) {
      if (w < 0 || w >= n)
        fail(n, "waits for node " + std::to_string(w) + ", which is not earlier");
    }
  }

  void operands(NodeId n) const {
    const Node& node = p_.node(n);
    for (size_t i = 0; i < node.in.size(); ++i) {
      ValueId v = node.in[i];
      if (v == kNone) {
        if (place_in_group(*node.op, i) < node.op->optional_from)
          fail(n, "operand " + std::to_string(i) + " is missing");
        continue;
      }
      if (!known(v)) fail(n, "operand " + std::to_string(i) + " is no value of this program");
      NodeId maker = made_[v];
      if (maker == kNone && !present_[v]) fail(n, "reads " + name(v) + " before it is made");
      if (maker != kNone && !order_->before(maker, n)) {
        fail(n, "reads " + name(v) + " without waiting for node " + std::to_string(maker) +
                    " on queue " + std::to_string(p_.node(maker).queue));
      }
    }
  }

  void outputs(NodeId n) {
    const Node& node = p_.node(n);
    const Specs inferred = infer_specs(*node.op, specs_of(p_, node.in), node.attrs);
    if (inferred.size() != node.out.size()) fail(n, "has the wrong number of outputs");
    for (size_t i = 0; i < node.out.size(); ++i) {
      ValueId v = node.out[i];
      if (v == kNone) continue;
      if (!known(v)) fail(n, "output " + std::to_string(i) + " is no value of this program");
      if (made_[v] != kNone || present_[v]) fail(n, "makes " + name(v) + " again");
      if (p_.value(v).producer != n) fail(n, name(v) + " does not name it as its producer");
      if (!(inferred[i] == p_.value(v).spec)) {
        fail(n, name(v) + " is " + to_string(p_.value(v).spec) + ", the operator makes " +
                    to_string(inferred[i]));
      }
      made_[v] = n;
    }
    if (node.op->writes_state != (node.phase == Phase::update)) {
      fail(n, node.op->writes_state ? "writes state outside the update phase"
                                    : "is in the update phase and writes no state");
    }
  }

  // From each slot's value at end back to its value at start, one update at a time.
  void state() const {
    ByValue<char> reached(p_.values.size(), 0);
    const auto readers = readers_of(p_);
    NodeId loss = kNone;
    for (auto& out : p_.outputs) {
      if (!known(out.value)) throw ProgramError("output " + out.name + " has no value");
      if (made_[out.value] == kNone && !present_[out.value]) {
        throw ProgramError("output " + out.name + " is never made");
      }
      if (out.name == "loss") loss = made_[out.value];
    }
    for (auto& slot : p_.state) {
      for (ValueId v = slot.end; v != slot.start;) {
        NodeId writer = known(v) ? made_[v] : kNone;
        if (writer == kNone)
          throw ProgramError("state " + slot.name + " ends as a value nobody makes");
        const Node& node = p_.node(writer);
        if (!node.op->writes_state) fail(writer, "is no update and makes the next " + slot.name);
        if (!(p_.value(v).spec == p_.value(slot.start).spec)) {
          fail(writer, "changes the spec of " + slot.name);
        }
        if (loss != kNone && !order_->before(loss, writer)) {
          fail(writer, "writes " + slot.name + " before the loss exists");
        }
        reached[v] = 1;
        int output = 0;
        while (node.out[output] != v) ++output;
        ValueId old = node.in[written_operand(*node.op, output)];
        for (NodeId reader : readers[old]) {
          if (reader != writer && !order_->before(reader, writer)) {
            fail(writer, "writes " + slot.name + " before node " + std::to_string(reader) + " (" +
                             p_.node(reader).op->name + ") has read the old value");
          }
        }
        v = old;
      }
    }
    for (NodeId n = 0; n < p_.node_count(); ++n) {
      if (!p_.node(n).op->writes_state) continue;
      for (ValueId v : p_.node(n).out) {
        if (v != kNone && !reached[v]) fail(n, "writes " + name(v) + ", which no state ends as");
      }
    }
  }

  const Program& p_;
  std::optional<Order> order_;
  ByValue<NodeId> made_;
  ByValue<char> present_;
};

}  // namespace

void verify(const Program& program) { Verifier(program).run(); }

}  // namespace pal
