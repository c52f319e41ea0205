// One walk that writes the nodes out.
#include "memory/passes/parts.h"

#include <algorithm>
#include <utility>

#include "core/prepare.h"

namespace pal {
namespace {

// What takes the node apart, or null.
const Rewrite* split_of(const Node& node, std::span<const Rewrite* const> rewrites) {
  if (node.phase != Phase::forward) return nullptr;
  for (const Rewrite* rewrite : rewrites) {
    if (rewrite->when == Rewrite::When::split && rewrite->op == node.op) return rewrite;
  }
  return nullptr;
}

// Appends the parts; they take the node's place in the schedule, one after the other.
void append_parts(Program& out, const Node& node, const Rewrite& split) {
  const FusedPattern parts = std::move(split.patterns(specs_of(out, node.in), node.attrs).front());
  std::vector<ValueId> now(parts.program.values.size(), kNone);  // by value of the parts
  std::vector<char> read(now.size(), 0);
  for (const Node& part : parts.program.nodes) {
    for (ValueId v : part.in) {
      if (v != kNone) read[size_t(v)] = 1;
    }
  }
  for (size_t k = 0; k < parts.in.size(); ++k) {
    if (parts.in[k] != kNone) now[size_t(parts.in[k])] = node.in[k];
  }
  for (size_t i = 0; i < parts.out.size(); ++i) {
    if (parts.out[i] != kNone) now[size_t(parts.out[i])] = node.out[i];
  }
  bool first = true;
  for (const Node& part : parts.program.nodes) {
    Node copy = node;
    copy.op = part.op, copy.attrs = part.attrs;
    if (!std::exchange(first, false)) copy.waits.clear();
    copy.in.clear(), copy.out.clear();
    for (ValueId v : part.in) copy.in.push_back(v == kNone ? kNone : now[size_t(v)]);
    for (ValueId v : part.out) {
      if (v != kNone && now[size_t(v)] == kNone && read[size_t(v)]) {
        Value value = parts.program.value(v);
        value.role = Role::feature_map, value.scope = node.scope, value.step = node.step;
        now[size_t(v)] = ValueId(out.values.size());
        out.values.push_back(std::move(value));
      }
      copy.out.push_back(v == kNone ? kNone : now[size_t(v)]);
    }
    out.nodes.push_back(std::move(copy));
  }
}

}  // namespace

Program split_parts(const Program& program, std::span<const Rewrite* const> rewrites) {
  if (std::none_of(program.nodes.begin(), program.nodes.end(),
                   [&](const Node& node) { return split_of(node, rewrites); })) {
    return program;
  }
  Program out = without_nodes(program);
  std::vector<NodeId> place(program.nodes.size());  // by node: its last part
  for (NodeId n = 0; n < program.node_count(); ++n) {
    Node node = program.node(n);
    for (NodeId& wait : node.waits) wait = place[size_t(wait)];
    if (const Rewrite* split = split_of(node, rewrites)) {
      append_parts(out, node, *split);
    } else {
      out.nodes.push_back(std::move(node));
    }
    place[size_t(n)] = out.node_count() - 1;
  }
  out.relink();
  return out;
}

}  // namespace pal
