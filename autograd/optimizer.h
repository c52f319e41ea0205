// The optimizer: one update node per weight, with the state slots that it needs.
#pragma once
#include <array>
#include <span>

#include "core/builder.h"

namespace pal {

struct OptimizerSpec {
  enum class Kind : uint8_t { sgd, momentum, nesterov, adam, adamw } kind = Kind::adam;
  float lr = 1;  // times the step's learning rate
  float momentum = 0.9f;
  double beta1 = 0.9, beta2 = 0.999;
  float eps = 1e-8f;
  float weight_decay = 0;
  bool decay_vectors = true;  // false: biases and gains (rank 1 or less) are not decayed
  float clip_value = 0;       // clamps every element of the scaled gradient; 0: no
  int64_t ranks = 1;  // above 1: every gradient is this rank's piece, and so are the states; each
                      // rank updates its own piece of the weights (ops/exchange: gather_state)
};
constexpr auto names(OptimizerSpec::Kind) {
  return std::array{"sgd", "momentum", "nesterov", "adam", "adamw"};
}

// Appends the update of each weight (the newest value of a state slot) by its gradient; a null
// gradient, of a weight that the loss does not reach, updates nothing. Slots, zero at first:
// "optimizer/m/<weight>" (momentum, nesterov, adam, adamw) and "optimizer/v/<weight>" (adam,
// adamw). The nodes belong to the weights' scopes. `gate` may be null. ProgramError where a value
// is no state, or the spans differ in length. `wholes`: of weights that are pieces themselves, what
// they are pieces of; empty: weights are whole.
void apply_optimizer(Builder& builder, const OptimizerSpec& spec, std::span<const Val> weights,
                     std::span<const Val> gradients, Val scalars, Val gate,
                     std::span<const Val> wholes = {});

}  // namespace pal
