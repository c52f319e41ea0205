// The printer.
#include "core/print.h"

#include "core/op.h"

namespace pal {
namespace {

std::string value_name(ValueId v, const Storages* storages) {
  if (v == kNone) return "_";
  std::string out = "%" + std::to_string(v);
  if (storages) {
    out += "@" + std::to_string(storages->of[v]);
    if (int64_t offset = storages->offset[v]) out += "+" + std::to_string(offset);
  }
  return out;
}

std::string list(const std::vector<ValueId>& values, const Storages* storages) {
  std::string out;
  for (ValueId v : values) out += (out.empty() ? "" : ", ") + value_name(v, storages);
  return out;
}

}  // namespace

std::string print_node(const Program& program, NodeId n, const Storages* storages) {
  const Node& node = program.node(n);
  std::string out = std::string(to_string(node.phase)) + " ";
  if (!node.out.empty()) out += list(node.out, storages) + " = ";
  out += std::string(node.op->name) + "(" + list(node.in, storages) + ")";
  if (std::string attrs = node.attrs.print(); !attrs.empty()) out += " " + attrs;
  std::string specs;
  for (ValueId v : node.out) {
    specs += (specs.empty() ? "" : ", ") + (v == kNone ? "_" : to_string(program.value(v).spec));
  }
  out += " : " + specs;
  if (node.queue != kComputeQueue) out += " on q" + std::to_string(node.queue);
  for (NodeId w : node.waits) out += " after n" + std::to_string(w);
  if (std::string scope = program.scope_of(node); !scope.empty()) out += "  # " + scope;
  return out;
}

std::string print(const Program& program, const Storages* storages) {
  std::string out;
  for (auto& input : program.inputs) {
    out += "input " + value_name(input.value, storages) + " " + input.name + " : " +
           to_string(program.value(input.value).spec) + "\n";
  }
  for (auto& slot : program.state) {
    out += "state " + value_name(slot.start, storages) + " " + slot.name + " : " +
           to_string(program.value(slot.start).spec) + " " + to_string(slot.role);
    if (slot.end != slot.start) out += " -> " + value_name(slot.end, storages);
    out += "\n";
  }
  for (NodeId n = 0; n < program.node_count(); ++n) out += print_node(program, n, storages) + "\n";
  for (auto& output : program.outputs) {
    out += "output " + value_name(output.value, storages) + " " + output.name + "\n";
  }
  return out;
}

std::string to_dot(const Program& program) {
  static constexpr const char* colours[] = {"#cfe2f3", "#f9cb9c", "#b6d7a8", "#fff2cc",
                                            "#d9d2e9", "#d9d2e9", "#d0e0e3", "#d0e0e3"};
  std::string out = "digraph program {\n  node [shape=box, style=filled, fontname=Helvetica];\n";
  auto source = [&](ValueId v) {
    NodeId maker = program.value(v).producer;
    return maker == kNone ? "v" + std::to_string(v) : "n" + std::to_string(maker);
  };
  auto given = [&](ValueId v, const std::string& name, const char* colour) {
    out += "  v" + std::to_string(v) + " [shape=ellipse, fillcolor=\"" + colour + "\", label=\"" +
           name + "\\n" + to_string(program.value(v).spec) + "\"];\n";
  };
  for (auto& input : program.inputs) given(input.value, input.name, "#eeeeee");
  for (auto& slot : program.state) given(slot.start, slot.name, "#ead1dc");
  for (NodeId n = 0; n < program.node_count(); ++n) {
    const Node& node = program.node(n);
    std::string scope = program.scope_of(node);
    out += "  n" + std::to_string(n) + " [fillcolor=\"" + colours[size_t(node.phase)] +
           "\", label=\"" + node.op->name + (scope.empty() ? "" : "\\n" + scope) + "\"];\n";
    for (ValueId v : node.in) {
      if (v == kNone) continue;
      out += "  " + source(v) + " -> n" + std::to_string(n) + " [label=\"%" + std::to_string(v) +
             " " + to_string(program.value(v).spec) + "\"];\n";
    }
    for (NodeId w : node.waits) {
      out += "  n" + std::to_string(w) + " -> n" + std::to_string(n) + " [style=dashed];\n";
    }
  }
  return out + "}\n";
}

}  // namespace pal
