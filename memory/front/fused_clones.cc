// The fused step's nodes, traced back to those that they stand for.
#include "memory/front/fused_clones.h"

#include <algorithm>
#include <utility>

#include "memory/passes/fuse_recompute.h"
#include "memory/recompute/clones.h"

namespace pal {
namespace {

// Finds for each node of a fused step the nodes that it stands for, in the step before its values
// were renumbered: all that lies between its operands and its outputs.
class KernelTracer {
 public:
  // `p`: the step, of which `fused` has the values as origins.
  KernelTracer(const Program& p, const Program& fused)
      : p_(p), fused_(fused), seen_(p.nodes.size(), kNone) {}

  // The node that makes this value; kNone: nobody does.
  NodeId made_by(ValueId of_fused) const {
    const ValueId was = fused_.value(of_fused).origin;
    return was == kNone ? NodeId(kNone) : p_.value(was).producer;
  }
  struct Kernel {
    std::vector<NodeId> nodes, gradients;
    std::vector<ValueId> inside;
  };
  Kernel trace(NodeId n) {
    const Node& node = fused_.node(n);
    out_ = {}, now_ = n, read_.clear(), made_.clear();
    for (ValueId v : present(node.in)) read_.push_back(fused_.value(v).origin);
    for (ValueId v : present(node.out)) made_.push_back(fused_.value(v).origin);
    for (ValueId v : present(node.out)) try_to_visit(made_by(v));
    return std::move(out_);
  }

 private:
  static bool has(const std::vector<ValueId>& list, ValueId v) {
    return std::find(list.begin(), list.end(), v) != list.end();
  }
  // Whether the kernel can have done what the node does: it has all that this takes. A gradient's
  // may do without an operand: a pool's, whose gradient does what relu's would.
  bool visit(NodeId n) {
    if (n == kNone || seen_[n] == now_) return true;
    seen_[n] = now_;
    const Node& node = p_.node(n);
    if (node.phase != Phase::forward && node.phase != Phase::backward) return true;
    const bool is_forward = node.phase == Phase::forward;
    (is_forward ? out_.nodes : out_.gradients).push_back(n);
    for (ValueId v : present(node.in)) {
      if (has(read_, v)) continue;
      const NodeId maker = p_.value(v).producer;
      const bool inside = maker != kNone && (is_forward ? visit(maker) : try_to_visit(maker));
      if (!inside && is_forward) return false;
      if (inside && !has(made_, v) && !has(out_.inside, v)) out_.inside.push_back(v);
    }
    return true;
  }
  // As if it had not been visited, where the kernel cannot have done it.
  bool try_to_visit(NodeId n) {
    const size_t nodes = out_.nodes.size(), inside = out_.inside.size();
    if (visit(n)) return true;
    for (size_t i = nodes; i < out_.nodes.size(); ++i) seen_[out_.nodes[i]] = kNone;
    out_.nodes.resize(nodes), out_.inside.resize(inside);
    return false;
  }

  const Program& p_;
  const Program& fused_;
  ByNode<NodeId> seen_;  // the node that was traced when it was met
  NodeId now_ = kNone;
  std::vector<ValueId> read_, made_;
  Kernel out_;
};

Program named(const Program& program) {
  Program out = program;
  for (ValueId v : out.values.ids()) out.value(v).origin = v;
  return out;
}

double sum_of(const std::vector<NodeId>& nodes, const ByNode<double>& node_ms) {
  double ms = 0;
  for (const NodeId n : nodes) ms += node_ms[n];
  return ms;
}

bool has_outputs(const Node& node) {
  const auto out = present(node.out);
  return out.begin() != out.end();
}

}  // namespace

StepTimes step_times(const Program& program, const DeviceProfile& device, const Fusions& fusions) {
  StepTimes out{.alone = predict(program, device).node_ms, .in_step = {}};
  out.in_step = out.alone;
  const Program fused = fused_by(fusions, named(program));
  const ByNode<double> fused_ms = predict(fused, device).node_ms;
  KernelTracer tracer(program, fused);
  for (NodeId n : fused.nodes.ids()) {
    if (!has_outputs(fused.node(n))) continue;
    const KernelTracer::Kernel kernel = tracer.trace(n);
    // A mask that a gradient's kernel draws again is a part of the forward kernel alone.
    const std::vector<NodeId>& parts =
        fused.node(n).phase == Phase::forward ? kernel.nodes : kernel.gradients;
    const double apart = sum_of(parts, out.alone);
    if (!(apart > 0)) continue;
    for (const NodeId part : parts) out.in_step[part] = out.alone[part] * (fused_ms[n] / apart);
  }
  return out;
}

std::vector<FusedClones> fused_clones(const StepView& view, const StepTimes& times,
                                      const DeviceProfile& device, const Fusions& fusions) {
  if (!fusions.recomputed && !fusions.epilogues) return {};
  const Program& p = view.program;
  const Program origins = named(p);
  const StepView all(origins);
  Choice choice(p.values.size(), 1);
  const Program fused =
      fused_by(fusions, insert_clones(all, std::move(choice), kClonesFar).program);
  const ByNode<double> fused_ms = predict(fused, device).node_ms;
  KernelTracer tracer(p, fused);
  std::vector<FusedClones> found;
  for (NodeId n : fused.nodes.ids()) {
    const Node& node = fused.node(n);
    if (node.phase != Phase::recompute && node.phase != Phase::backward) continue;
    if (!has_outputs(node)) continue;
    const NodeId maker = tracer.made_by(*present(node.out).begin());
    if (maker == kNone || p.node(maker).op == node.op) continue;
    KernelTracer::Kernel kernel = tracer.trace(n);
    std::erase_if(kernel.inside, [&](ValueId v) { return view.pinned[v] != 0; });
    if (kernel.nodes.empty() || kernel.inside.empty()) continue;
    const double apart =
        sum_of(kernel.nodes, times.alone) + sum_of(kernel.gradients, times.in_step);
    found.push_back({.nodes = std::move(kernel.nodes),
                     .interior = std::move(kernel.inside),
                     .gradients = std::move(kernel.gradients),
                     .saved_ms = apart - fused_ms[n]});
  }
  return found;
}

}  // namespace pal
