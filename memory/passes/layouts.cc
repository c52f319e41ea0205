// One walk over the schedule: the reorders that a node needs first, then the node.
#include "memory/passes/layouts.h"

#include <map>
#include <string>
#include <tuple>

#include "core/op.h"
#include "ops/tensors/reorder.h"

namespace pal {
namespace {

class Chooser {
 public:
  Chooser(const Program& program, KernelCache& cache, LayoutsEffect& effect)
      : out_(without_nodes(program)), cache_(cache), effect_(effect) {
    place_.reserve(program.nodes.size());
    for (const Node& node : program.nodes) add(program, node);
    out_.relink();
  }
  Program take() { return std::move(out_); }

 private:
  void add(const Program& program, Node node) {
    for (NodeId& wait : node.waits) wait = place_[size_t(wait)];
    const std::vector<Layout> preferred = cache_.get(program, node)->prepared.preferred;
    for (size_t k = 0; k < preferred.size() && k < node.in.size(); ++k) {
      const ValueId v = node.in[k];
      if (v == kNone || !preferred[k] || program.value(v).spec.layout) continue;
      node.in[k] = reordered(v, preferred[k], node);
      ++effect_.readers;
    }
    place_.push_back(out_.node_count());
    out_.nodes.push_back(std::move(node));
  }

  ValueId reordered(ValueId v, const Layout& layout, const Node& reader) {
    const bool forward = reader.phase == Phase::forward;
    auto [at, added] = made_.try_emplace({v, layout->tag, reader.queue, forward}, kNone);
    if (!added) return at->second;
    Value value = out_.value(v);  // a copy: the list grows
    value.spec.layout = layout;
    value.role = Role::workspace;
    value.scope = reader.scope, value.step = reader.step;
    out_.values.push_back(value);
    at->second = ValueId(out_.values.size()) - 1;
    // What the reader waits for may be what it reads.
    out_.nodes.push_back({.op = &reorder_op,
                          .attrs = ReorderAttrs{layout},
                          .in = {v},
                          .out = {at->second},
                          .phase = reader.phase,
                          .queue = reader.queue,
                          .waits = reader.waits,
                          .scope = reader.scope,
                          .step = reader.step});
    ++effect_.reorders;
    effect_.bytes += value.spec.bytes();
    return at->second;
  }

  Program out_;
  KernelCache& cache_;
  LayoutsEffect& effect_;
  std::vector<NodeId> place_;  // by old node: its new number
  std::map<std::tuple<ValueId, std::string, QueueId, bool>, ValueId> made_;
};

}  // namespace

Program choose_layouts(const Program& program, KernelCache& cache, LayoutsEffect* effect) {
  LayoutsEffect ignored;
  return Chooser(program, cache, effect ? *effect : ignored).take();
}

}  // namespace pal
