// The bookkeeping of one node's gradient.
#include "core/gradient.h"

#include <algorithm>

namespace pal {

GradientArgs::GradientArgs(Builder& b, NodeId n, std::span<const Val> gradients,
                           std::span<const char> wanted)
    : builder(b), node(b.program().node(n)), operands_(node.in.size()) {
  for (ValueId v : node.out) dy_.push_back(v == kNone ? Val{} : gradients[size_t(v)]);
  for (size_t k = 0; k < node.in.size(); ++k) {
    const ValueId v = node.in[k];
    if (v == kNone) continue;
    operands_[k].wanted = wanted[size_t(v)];
    // An operand that stands twice in one node has one sum, which only the first may take.
    const auto at = node.in.begin() + long(k);
    if (std::find(node.in.begin(), at, v) == at) operands_[k].sum = gradients[size_t(v)];
  }
}

DType GradientArgs::type(int k) const {
  const bool weight = builder.program().value(node.in[size_t(k)]).role == Role::weight;
  return weight ? DType::f32 : in(k).spec().dtype;
}

Val GradientArgs::take_sum(int k) {
  if (!wants(k)) return {};
  Operand& operand = operands_[size_t(k)];
  operand.taken = bool(operand.sum);
  return operand.sum;
}

void GradientArgs::give(int k, Val gradient) {
  if (wants(k)) operands_[size_t(k)].given = gradient;
}

Val GradientArgs::given(int k) const {
  const Operand& operand = operands_[size_t(k)];
  require(operand.given || !operand.taken, node.op->name,
          "took the sum of operand " + std::to_string(k) + "'s gradient and gave none");
  return operand.given;
}

}  // namespace pal
