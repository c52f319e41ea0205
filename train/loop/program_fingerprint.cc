// All that a program says of itself.
#include "train/loop/program_fingerprint.h"

#include <string>

#include "core/op.h"

namespace pal {

void take_program(Fingerprint& f, const Program& p) {
  f.take(int64_t(p.values.size()));
  for (ValueId v : p.values.ids()) {
    const Value& value = p.value(v);
    f.take(int64_t(hash_of(value.spec)));
    f.take(int64_t(value.role) * 2 + int64_t(value.space));
    f.take(value.scope), f.take(value.step);
  }
  for (NodeId n : p.nodes.ids()) {
    const Node& node = p.node(n);
    f.take(node.op->name);
    f.take(int64_t(node.attrs.hash()));
    f.take(int64_t(node.in.size()));
    for (ValueId v : node.in) f.take(int32_t(v));
    for (ValueId v : node.out) f.take(int32_t(v));
    f.take(int64_t(node.phase)), f.take(int64_t(node.queue)), f.take(node.scope);
    f.take(int64_t(node.step));
  }
  for (const StateSlot& slot : p.state) {
    f.take(slot.name), f.take(int32_t(slot.start)), f.take(int32_t(slot.end));
  }
  for (const NamedValue& input : p.inputs) f.take(int32_t(input.value));
  for (const NamedValue& output : p.outputs) f.take(int32_t(output.value));
  for (const std::string& scope : p.scopes) f.take(scope), f.take(int64_t(-1));
}

}  // namespace pal
