// One walk over the recorded nodes, last to first.
#include "autograd/differentiate.h"

#include "core/error.h"
#include "core/gradient.h"
#include "ops/elementwise/add.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/fill.h"

namespace pal {
namespace {

// The values that `wrt` reaches: only their gradients are wanted.
ByValue<char> reachable(const Program& program, const std::vector<Val>& wrt) {
  ByValue<char> reached(program.values.size(), 0);
  for (Val v : wrt) reached[v.id] = 1;
  for (const Node& node : program.nodes) {
    if (!node.op->gradient) continue;
    bool any = false;
    for (ValueId v : present(node.in)) any |= bool(reached[v]);
    if (!any) continue;
    for (ValueId v : present(node.out)) reached[v] = 1;
  }
  return reached;
}

}  // namespace

std::vector<Val> differentiate(Builder& builder, Val loss, const std::vector<Val>& wrt,
                               const std::vector<Val>& start) {
  if (loss.shape().numel() != 1) {
    throw ProgramError("differentiate: the loss must be one number, got " + to_string(loss.spec()));
  }
  const ByValue<char> reached = reachable(builder.program(), wrt);
  const NodeId recorded = builder.program().node_count();
  ByValue<Val> gradient(builder.program().values.size());
  for (size_t i = 0; i < start.size(); ++i) gradient[wrt[i].id] = start[i];
  {
    Builder::Within phase(builder, Phase::backward);
    gradient[loss.id] = fill(builder, loss.spec(), 1.0f);
  }
  for (NodeId n = recorded; n-- > 0;) {
    const Node& recorded_node = builder.program().node(n);
    if (!recorded_node.op->gradient) continue;
    bool wanted = false, given = false;
    for (ValueId v : present(recorded_node.in)) wanted |= bool(reached[v]);
    for (ValueId v : present(recorded_node.out)) given |= bool(gradient[v]);
    if (!wanted || !given) continue;

    GradientArgs args(builder, n, gradient, reached);
    Builder::Within where(builder, args.node, Phase::backward);
    args.node.op->gradient(args);
    for (size_t k = 0; k < args.node.in.size(); ++k) {
      Val part = args.given(int(k));
      if (!part) continue;
      Val& sum = gradient[args.node.in[k]];
      part = cast(part, args.type(int(k)));
      sum = sum && !args.has_sum(int(k)) ? add(sum, part) : part;
    }
  }
  std::vector<Val> result;
  for (Val v : wrt) {
    Val g = gradient[v.id];
    if (g && builder.program().value(v.id).role == Role::weight) {
      builder.program().value(g.id).role = Role::weight_gradient;
    }
    result.push_back(g);
  }
  return result;
}

}  // namespace pal
