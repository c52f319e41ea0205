// Adam and AdamW as updates of a weight's state.
#pragma once
#include <cmath>

#include "core/op.h"
#include "core/val.h"
#include "ops/optimizer/updated.h"

namespace pal {

extern const OpDef adam_op;
[[gnu::weak]] extern const Backend adam_cuda;

struct AdamAttrs {
  float lr = 1;  // times the step's learning rate
  double beta1 = 0.9, beta2 = 0.999;
  float eps = 1e-8f;
  float weight_decay = 0;
  bool decoupled = false;  // AdamW: the decay bypasses the moments
  float clip_value = 0;    // every element of the scaled gradient is clamped to +-this; 0: no
  int64_t ranks = 1;       // above 1: g, m and v are this rank's piece of what is like w
  auto fields() const {
    return std::tuple{field("lr", lr),
                      field("beta1", beta1),
                      field("beta2", beta2),
                      field("eps", eps),
                      field("weight_decay", weight_decay),
                      field("decoupled", decoupled),
                      field("clip_value", clip_value),
                      field("ranks", ranks)};
  }
};

// w (newest value of its slot, f32), g like w, m and v (states like w, zero at first), the step's
// scalars, a gate or none -> the next w. As PyTorch's Adam and AdamW, t = step + 1:
//   g' = clamp(scale g) + weight_decay w (decoupled: w <- (1 - lr weight_decay) w instead)
//   m' = m + (1 - beta1) (g' - m),  v' = beta2 v + (1 - beta2) g'^2
//   w - lr / (1 - beta1^t) m' / (sqrt(v') / sqrt(1 - beta2^t) + eps)
// scale: the gate's, else 1 / loss_scale.
Val adam(Val w, Val g, Val m, Val v, Val scalars, Val gate = {}, AdamAttrs attrs = {});

struct Adam {
  static constexpr int kStates = 2;  // m, v
  float keep;                        // 1 - lr weight_decay where decoupled, else 1
  float decay;                       // weight_decay where not decoupled, else 0
  float first;                       // 1 - beta1
  float beta2, second;               // beta2, 1 - beta2
  float rate, root, eps;             // lr / (1 - beta1^t), 1 / sqrt(1 - beta2^t)

  // The bias corrections are taken in double from the step's number, once a node.
  PAL_HD static Adam of(const AdamAttrs& attrs, float learning_rate, int64_t count) {
    const double lr = double(learning_rate), t = double(count);
    return {.keep = attrs.decoupled ? float(1 - lr * double(attrs.weight_decay)) : 1.0f,
            .decay = attrs.decoupled ? 0.0f : attrs.weight_decay,
            .first = float(1 - attrs.beta1),
            .beta2 = float(attrs.beta2),
            .second = float(1 - attrs.beta2),
            .rate = float(lr / (1 - pow(attrs.beta1, t))),
            .root = float(1 / sqrt(1 - pow(attrs.beta2, t))),
            .eps = attrs.eps};
  }
  PAL_HD Updated operator()(float w, float g, float m, float v) const {
    const float d = g + decay * w;
    const float next_m = m + first * (d - m);
    const float next_v = beta2 * v + second * (d * d);
    return {keep * w - rate * next_m / (sqrtf(next_v) * root + eps), next_m, next_v};
  }
};

}  // namespace pal
