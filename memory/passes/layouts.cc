// One walk over the schedule: the reorders that a node needs first, then the node.
#include "memory/passes/layouts.h"

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "core/op.h"
#include "core/rewriter.h"
#include "ops/tensors/reorder.h"

namespace pal {

Program choose_layouts(const Program& program, KernelCache& cache, LayoutsEffect* effect) {
  Rewriter out(program);
  LayoutsEffect made;
  std::map<std::tuple<ValueId, std::string, bool>, ValueId> known;  // value, layout, forward
  auto reordered = [&](ValueId v, const Layout& layout, const Node& reader) {
    const bool forward = reader.phase == Phase::forward;
    auto [at, added] = known.try_emplace({v, layout->tag, forward}, kNone);
    if (!added) return at->second;
    Value value = program.value(v);
    value.spec.layout = layout;
    value.role = Role::workspace;
    value.scope = reader.scope, value.step = reader.step;
    ++made.reorders, made.bytes += value.spec.bytes();
    at->second = out.add(std::move(value));
    // What the reader waits for may be what it reads.
    out.insert({.op = &reorder_op,
                .attrs = ReorderAttrs{layout},
                .in = {v},
                .out = {at->second},
                .phase = reader.phase,
                .waits = reader.waits,
                .scope = reader.scope,
                .step = reader.step});
    return at->second;
  };
  for (NodeId n : program.nodes.ids()) {
    Node node = program.node(n);
    const std::vector<Layout> preferred = cache.get(program, node)->prepared.preferred;
    for (size_t k = 0; k < preferred.size() && k < node.in.size(); ++k) {
      const ValueId v = node.in[k];
      if (v == kNone || !preferred[k] || program.value(v).spec.layout) continue;
      node.in[k] = reordered(v, preferred[k], node);
      ++made.readers;
    }
    out.replace(n, std::move(node));
  }
  if (effect) *effect = made;
  return out.finish();
}

}  // namespace pal
