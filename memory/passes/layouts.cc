// One walk over the schedule: the reorders that a node needs first, then the node.
#include "memory/passes/layouts.h"

#include <map>
#include <string>
#include <tuple>

#include "core/op.h"
#include "core/rewriter.h"
#include "ops/tensors/reorder.h"

namespace pal {
namespace {

class Chooser {
 public:
  Chooser(const Program& program, KernelCache& cache, LayoutsEffect& effect)
      : p_(program), out_(program), cache_(cache), effect_(effect) {}

  Program run() {
    for (NodeId n : p_.nodes.ids()) {
      Node node = p_.node(n);
      const std::vector<Layout> preferred = cache_.get(p_, node)->prepared.preferred;
      for (size_t k = 0; k < preferred.size() && k < node.in.size(); ++k) {
        const ValueId v = node.in[k];
        if (v == kNone || !preferred[k] || p_.value(v).spec.layout) continue;
        node.in[k] = reordered(v, preferred[k], node);
        ++effect_.readers;
      }
      out_.replace(n, std::move(node));
    }
    return out_.finish();
  }

 private:
  ValueId reordered(ValueId v, const Layout& layout, const Node& reader) {
    const bool forward = reader.phase == Phase::forward;
    auto [at, added] = made_.try_emplace({v, layout->tag, forward}, kNone);
    if (!added) return at->second;
    Value value = p_.value(v);
    value.spec.layout = layout;
    value.role = Role::workspace;
    value.scope = reader.scope, value.step = reader.step;
    at->second = out_.add(value);
    // What the reader waits for may be what it reads.
    out_.insert({.op = &reorder_op,
                 .attrs = ReorderAttrs{layout},
                 .in = {v},
                 .out = {at->second},
                 .phase = reader.phase,
                 .waits = reader.waits,
                 .scope = reader.scope,
                 .step = reader.step});
    ++effect_.reorders;
    effect_.bytes += value.spec.bytes();
    return at->second;
  }

  const Program& p_;
  Rewriter out_;
  KernelCache& cache_;
  LayoutsEffect& effect_;
  std::map<std::tuple<ValueId, std::string, bool>, ValueId> made_;
};

}  // namespace

Program choose_layouts(const Program& program, KernelCache& cache, LayoutsEffect* effect) {
  LayoutsEffect ignored;
  return Chooser(program, cache, effect ? *effect : ignored).run();
}

}  // namespace pal
