// Stochastic gradient descent, plain and with momentum, as updates of a weight's state.
#pragma once
#include "core/op.h"
#include "core/val.h"
#include "ops/optimizer/updated.h"

namespace pal {

extern const OpDef momentum_op, sgd_op;
[[gnu::weak]] extern const Backend momentum_cuda, sgd_cuda;

struct SgdAttrs {
  float lr = 1;            // times the step's learning rate
  float weight_decay = 0;  // added to the gradient, times the weight
  float clip_value = 0;    // every element of the scaled gradient is clamped to +-this; 0: no
  int64_t ranks = 1;       // above 1: g, and the states, are this rank's piece of what is like w
  auto fields() const {
    return std::tuple{field("lr", lr), field("weight_decay", weight_decay),
                      field("clip_value", clip_value), field("ranks", ranks)};
  }
};
struct MomentumAttrs {
  float lr = 1, weight_decay = 0, clip_value = 0;  // as above
  float momentum = 0.9f;
  bool nesterov = false;
  int64_t ranks = 1;
  auto fields() const {
    return std::tuple{field("lr", lr),
                      field("weight_decay", weight_decay),
                      field("clip_value", clip_value),
                      field("momentum", momentum),
                      field("nesterov", nesterov),
                      field("ranks", ranks)};
  }
};

// w (newest value of its slot, f32), g like w, the step's scalars, a gate or none -> the next w.
//   g' = clamp(scale g) + weight_decay w;  w - lr g'      (scale: the gate's, else 1 / loss_scale)
Val sgd(Val w, Val g, Val scalars, Val gate = {}, SgdAttrs attrs = {});

// The same with velocity m (a state like w, zero at first), as PyTorch's SGD without dampening:
//   m' = momentum m + g';  w - lr m', or with nesterov w - lr (g' + momentum m')
Val momentum(Val w, Val g, Val m, Val scalars, Val gate = {}, MomentumAttrs attrs = {});

struct Sgd {
  static constexpr int kStates = 0;
  float lr, decay;

  PAL_HD static Sgd of(const SgdAttrs& attrs, float learning_rate, int64_t) {
    return {learning_rate, attrs.weight_decay};
  }
  PAL_HD Updated operator()(float w, float g, float, float) const {
    return {w - lr * (g + decay * w)};
  }
};
struct Momentum {
  static constexpr int kStates = 1;  // m
  float lr, decay, momentum;
  bool nesterov;

  PAL_HD static Momentum of(const MomentumAttrs& attrs, float learning_rate, int64_t) {
    return {learning_rate, attrs.weight_decay, attrs.momentum, attrs.nesterov};
  }
  PAL_HD Updated operator()(float w, float g, float m, float) const {
    const float d = g + decay * w;
    const float next = momentum * m + d;
    return {w - lr * (nesterov ? d + momentum * next : next), next};
  }
};

}  // namespace pal
