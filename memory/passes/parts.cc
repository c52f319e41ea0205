// One walk that writes the nodes out.
#include "memory/passes/parts.h"

#include <algorithm>
#include <utility>

#include "core/prepare.h"
#include "core/rewriter.h"

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

}  // namespace

void append_parts(Rewriter& out, NodeId n, const Node& node, const FusedPattern& parts) {
  ByValue<ValueId> now(parts.program.values.size(), kNone);  // of the parts
  ByValue<char> read(now.size(), 0);
  for (const Node& part : parts.program.nodes) {
    for (ValueId v : present(part.in)) read[v] = 1;
  }
  for (size_t k = 0; k < parts.in.size(); ++k) {
    if (parts.in[k] != kNone) now[parts.in[k]] = node.in[k];
  }
  for (size_t i = 0; i < parts.out.size(); ++i) {
    if (parts.out[i] != kNone) now[parts.out[i]] = node.out[i];
  }
  bool first = true;
  for (const Node& part : parts.program.nodes) {
    Node copy = node;
    copy.op = part.op, copy.attrs = part.attrs;
    if (!std::exchange(first, false)) copy.waits.clear();
    copy.in.clear(), copy.out.clear();
    for (ValueId v : part.in) copy.in.push_back(v == kNone ? kNone : now[v]);
    for (ValueId v : part.out) {
      if (v != kNone && now[v] == kNone && read[v]) {
        Value value = parts.program.value(v);
        value.scope = node.scope, value.step = node.step;
        now[v] = out.add(std::move(value));
      }
      copy.out.push_back(v == kNone ? kNone : now[v]);
    }
    out.replace(n, std::move(copy));
  }
}

Program split_parts(const Program& program, std::span<const Rewrite* const> rewrites) {
  if (std::none_of(program.nodes.begin(), program.nodes.end(),
                   [&](const Node& node) { return split_of(node, rewrites); })) {
    return program;
  }
  Rewriter out(program);
  for (NodeId n : program.nodes.ids()) {
    const Node& node = program.node(n);
    if (const Rewrite* split = split_of(node, rewrites)) {
      append_parts(out, n, node,
                   split->patterns(specs_of(out.written(), node.in), node.attrs).front());
    } else {
      out.keep(n);
    }
  }
  return out.finish();
}

}  // namespace pal
