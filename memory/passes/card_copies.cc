// Casts beside those that are there, and the readers that take them.
#include "memory/passes/card_copies.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/op.h"
#include "core/rewriter.h"
#include "ops/tensors/casts.h"

namespace pal {
namespace {

using Copy = std::pair<ValueId, DType>;  // of a value, as another type

// What its kernel would copy; kNone where it is no state as the step finds it, or of that type.
class CopiedOperands {
 public:
  explicit CopiedOperands(const Program& program) : p_(program), state_(program.values.size(), 0) {
    for (const StateSlot& slot : program.state) state_[slot.start] = 1;
  }
  // f(operand, copy) for each.
  template <class F> void each(const Node& node, F f) const {
    if (!node.op->card_type) return;
    const Specs in = specs_of(p_, node.in);
    for (size_t k = 0; k < in.size(); ++k) {
      if (node.in[k] == kNone || !state_[node.in[k]] || in[k].dtype != DType::f32) continue;
      const DType type = node.op->card_type(k, in, node.attrs);
      if (type != DType::f32) f(k, Copy{node.in[k], type});
    }
  }
  // A cast of states alone.
  bool is_copy(const Node& node) const {
    if (node.op != &cast_op || node.phase != Phase::forward) return false;
    for (const ValueId v : node.in) {
      if (!state_[v]) return false;
    }
    return true;
  }

 private:
  const Program& p_;
  ByValue<char> state_;
};

// Copies are held no longer, as most bytes are held about then.
NodeId first_backward(const Program& program) {
  for (NodeId n : program.nodes.ids()) {
    if (program.node(n).phase != Phase::forward) return n;
  }
  return program.node_count();
}

}  // namespace

std::optional<Program> card_copies(const Program& program, std::string* note) {
  const CopiedOperands operands(program);
  std::vector<Copy> wanted;
  std::map<Copy, ValueId> made;
  NodeId first_reader = kNone, first_copy = kNone;
  const NodeId behind = first_backward(program);
  for (NodeId n = 0; n < behind; ++n) {
    const Node& node = program.node(n);
    if (first_copy == kNone && operands.is_copy(node)) first_copy = n;
    operands.each(node, [&](size_t, const Copy& copy) {
      if (first_reader == kNone) first_reader = n;
      if (made.emplace(copy, kNone).second) wanted.push_back(copy);
    });
  }
  if (wanted.empty()) return {};
  const NodeId at = first_copy == kNone ? first_reader : std::min(first_copy, first_reader);
  Rewriter out(program, wanted.size(), wanted.size());
  for (NodeId n : program.nodes.ids()) {
    for (size_t i = 0; n == at && i < wanted.size(); ++i) {
      const auto& [from, type] = wanted[i];
      const Value& source = program.value(from);
      made[wanted[i]] =
          out.add({.spec = {source.spec.shape, type}, .role = source.role, .scope = source.scope});
      out.insert({.op = &cast_op,
                  .attrs = CastAttrs{type},
                  .in = {from},
                  .out = {made[wanted[i]]},
                  .scope = source.scope});
    }
    Node node = program.node(n);
    if (n < behind) {
      operands.each(program.node(n),
                    [&](size_t k, const Copy& copy) { node.in[k] = made.at(copy); });
    }
    out.replace(n, std::move(node));
  }
  if (note) *note = std::to_string(wanted.size()) + " biases copied once";
  return out.finish();
}

}  // namespace pal
