// The fused step's nodes, traced back to those that they stand for.
#include "memory/front/fused_clones.h"

#include <algorithm>
#include <utility>

#include "memory/passes/fuse_recompute.h"
#include "memory/recompute/clones.h"

namespace pal {
namespace {

// The node that makes this value of the step where everything runs again, in the step as it was.
NodeId made_by(const StepView& view, const Program& p, ValueId v) {
  const ValueId was = p.value(v).origin;
  return was == kNone ? NodeId(kNone) : view.program.value(was).producer;
}

class CloneTracer {
 public:
  CloneTracer(const StepView& view, const Program& fused, const ByNode<double>& node_ms)
      : view_(view), fused_(fused), node_ms_(node_ms), seen_(view.program.nodes.size(), kNone) {}

  // What the node stands for: all that lies between its operands and its outputs.
  FusedClones trace(NodeId n, double fused_ms) {
    const Node& node = fused_.node(n);
    read_.clear(), out_ = {}, out_.saved_ms = -fused_ms, now_ = n;
    for (ValueId v : present(node.in)) read_.push_back(fused_.value(v).origin);
    for (ValueId v : present(node.out)) made_.push_back(fused_.value(v).origin);
    for (ValueId v : present(node.out)) visit(made_by(view_, fused_, v));
    made_.clear();
    return std::move(out_);
  }

 private:
  void visit(NodeId n) {
    if (n == kNone || seen_[n] == now_) return;
    seen_[n] = now_;
    const Node& node = view_.program.node(n);
    if (node.phase != Phase::forward && node.phase != Phase::backward) return;
    (node.phase == Phase::forward ? out_.nodes : out_.gradients).push_back(n);
    out_.saved_ms += node_ms_[n];
    for (ValueId v : present(node.in)) {
      const bool outside = view_.program.value(v).producer == kNone ||
                           std::find(read_.begin(), read_.end(), v) != read_.end();
      if (outside) continue;
      if (!view_.pinned[v] && std::find(made_.begin(), made_.end(), v) == made_.end() &&
          std::find(out_.interior.begin(), out_.interior.end(), v) == out_.interior.end()) {
        out_.interior.push_back(v);
      }
      visit(view_.program.value(v).producer);
    }
  }

  const StepView& view_;
  const Program& fused_;
  const ByNode<double>& node_ms_;
  ByNode<NodeId> seen_;  // the node that was traced when it was met
  NodeId now_ = kNone;
  std::vector<ValueId> read_, made_;
  FusedClones out_;
};

}  // namespace

std::vector<FusedClones> fused_clones(const StepView& view, const DeviceProfile& device) {
  Program named = view.program;
  for (ValueId v : named.values.ids()) named.value(v).origin = v;
  const StepView all(named);
  Choice choice(named.values.size(), 1);
  const Program fused = fuse_recompute(insert_clones(all, std::move(choice), kClonesFar).program);
  const ByNode<double> fused_ms = predict(fused, device).node_ms;
  const ByNode<double> node_ms = predict(view.program, device).node_ms;
  CloneTracer tracer(view, fused, node_ms);
  std::vector<FusedClones> found;
  for (NodeId n : fused.nodes.ids()) {
    const Node& node = fused.node(n);
    if (node.phase != Phase::recompute && node.phase != Phase::backward) continue;
    const auto out = present(node.out);
    if (!(out.begin() != out.end())) continue;
    const NodeId maker = made_by(view, fused, *out.begin());
    if (maker == kNone || view.program.node(maker).op == node.op) continue;
    FusedClones one = tracer.trace(n, fused_ms[n]);
    if (!one.nodes.empty() && !one.interior.empty()) found.push_back(std::move(one));
  }
  return found;
}

}  // namespace pal
