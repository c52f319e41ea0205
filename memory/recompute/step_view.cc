// One walk over the values, one over the nodes.
#include "memory/recompute/step_view.h"

#include <algorithm>

#include "core/prepare.h"
#include "memory/passes/divide_weights.h"
#include "memory/storages/storages.h"

namespace pal {

namespace {

bool is_among(const std::string& scope, const std::vector<std::string>& parts) {
  return parts.empty() || std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
           return scope.find(part) != std::string::npos;
         });
}

}  // namespace

StepView::StepView(const Program& p, const RecomputeOptions& options) : program(p), readers(p) {
  const size_t values = p.values.size(), nodes = p.nodes.size();
  first_use.assign(values, kNone), last_use.assign(values, kNone);
  pinned.assign(values, 0), cost.resize(nodes), clonable.assign(nodes, 0);
  const Storages storages = assign_storages(p, {}, {.inplace = false});
  storage.assign(storages.of.begin(), storages.of.end());
  for (const Storage& s : storages.list) storage_bytes.push_back(align_up(s.bytes));

  const ByValue<ValueId> again = second_gathers(p);
  for (size_t v = 0; v < values; ++v) {
    const NodeId producer = p.values[v].producer;
    const Storage* s = storage[v] == kNone ? nullptr : &storages[storage[v]];
    pinned[v] = producer == kNone || again[ValueId(v)] != kNone || !s || s->persistent ||
                s->input || s->output || p.node(producer).phase != Phase::forward;
    if (pinned[v]) continue;
    for (NodeId r : readers[v]) {
      const Node& reader = p.node(r);
      if (reader.phase == Phase::forward) continue;
      if (reader.phase == Phase::update) {
        pinned[v] = 1;
        continue;
      }
      if (first_use[v] == kNone) first_use[v] = r;
      last_use[v] = r;
    }
  }
  ByStorage<NodeId> written(storages.list.size(), p.node_count());  // the first update of it
  for (NodeId n = p.node_count(); n-- > 0;) {
    if (!p.node(n).op->writes_state) continue;
    for (ValueId v : p.node(n).out) {
      if (v != kNone) written[storage[v]] = n;
    }
  }
  // The last node that may come to read a clone of it, or one that is made of it.
  ByNode<NodeId> last_need(p.nodes.size(), kNone);
  for (NodeId n = p.node_count(); n-- > 0;) {
    for (ValueId v : present(p.node(n).out)) {
      if (last_use[v] != kNone) last_need[n] = std::max(last_need[n], last_use[v]);
      for (NodeId r : readers[v]) {
        if (p.node(r).phase == Phase::forward) last_need[n] = std::max(last_need[n], last_need[r]);
      }
    }
  }
  for (NodeId n = 0; n < p.node_count(); ++n) {
    const Node& node = p.node(n);
    if (node.phase != Phase::forward || node.op->writes_state) continue;
    cost[n] = cost_of(*node.op, specs_of(p, node.in), specs_of(p, node.out), node.attrs);
    clonable[n] = is_among(p.scopes[node.scope], options.scopes) && node.waits.empty() &&
                  !node.op->collective &&
                  std::none_of(node.in.begin(), node.in.end(), [&](ValueId v) {
                    return v != kNone && storage[v] != kNone && written[storage[v]] <= last_need[n];
                  });
  }
  set_heavy(options.heavy);
}

void StepView::set_heavy(double flops_per_byte) {
  heavy.assign(program.nodes.size(), 0);
  for (size_t n = 0; n < heavy.size(); ++n) {
    heavy[n] = program.nodes[n].phase == Phase::forward &&
               cost[n].flops >= flops_per_byte * std::max(cost[n].bytes, 1.0);
  }
}

bool StepView::from_pinned(NodeId n) const {
  const auto& in = program.node(n).in;
  return std::all_of(in.begin(), in.end(), [&](ValueId v) { return stays(v); });
}

}  // namespace pal
