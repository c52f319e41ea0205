// From an OptimizerSpec to update nodes.
#include "autograd/optimizer.h"

#include "core/error.h"
#include "ops/optimizer/adam.h"
#include "ops/optimizer/sgd.h"

namespace pal {
namespace {

std::string name_of(const Program& program, Val weight) {
  for (const StateSlot& slot : program.state) {
    if (slot.end == weight.id) return slot.name;
  }
  throw ProgramError("optimizer: value " + std::to_string(weight.id) + ", " +
                     to_string(weight.spec()) + ", is not the newest value of a state slot");
}

// `rank`: of the whole weight, its number of axes.
void update(Builder& builder, const OptimizerSpec& spec, Val w, int rank, Val g, Val scalars,
            Val gate) {
  const std::string name = name_of(builder.program(), w);
  auto slot = [&](const char* kind) {
    return builder.state(std::string("optimizer/") + kind + "/" + name, {g.shape(), DType::f32},
                         Role::optimizer_state);
  };
  const float decay = spec.decay_vectors || rank > 1 ? spec.weight_decay : 0.0f;
  using Kind = OptimizerSpec::Kind;
  switch (spec.kind) {
    case Kind::sgd: sgd(w, g, scalars, gate, {spec.lr, decay, spec.clip_value, spec.ranks}); return;
    case Kind::momentum:
    case Kind::nesterov:
      momentum(w, g, slot("m"), scalars, gate,
               {spec.lr, decay, spec.clip_value, spec.momentum, spec.kind == Kind::nesterov,
                spec.ranks});
      return;
    case Kind::adam:
    case Kind::adamw:
      const Val m = slot("m"), v = slot("v");
      adam(w, g, m, v, scalars, gate,
           {spec.lr, spec.beta1, spec.beta2, spec.eps, decay, spec.kind == Kind::adamw,
            spec.clip_value, spec.ranks});
      return;
  }
}

}  // namespace

void apply_optimizer(Builder& builder, const OptimizerSpec& spec, std::span<const Val> weights,
                     std::span<const Val> gradients, Val scalars, Val gate,
                     std::span<const Val> wholes) {
  if (weights.size() != gradients.size()) {
    throw ProgramError("optimizer: " + std::to_string(weights.size()) + " weights, but " +
                       std::to_string(gradients.size()) + " gradients");
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!gradients[i]) continue;
    const Node in_scope{.scope = builder.program().value(weights[i].id).scope};
    Builder::Within where(builder, in_scope, Phase::update);
    const int rank = (wholes.empty() ? weights : wholes)[i].shape().rank();
    update(builder, spec, weights[i], rank, gradients[i], scalars, gate);
  }
}

}  // namespace pal
