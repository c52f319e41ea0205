// adam, one or several weights in a launch.
#include "ops/optimizer/adam.h"
#include "ops/optimizer/cuda_update.h"

namespace pal {
namespace {

struct AdamUpdate {
  static constexpr int kStates = 2;
  AdamAttrs attrs;
  using Rule = Adam;
  __device__ Rule rule(const UpdateStep& step) const {
    const double lr = double(step.learning_rate), t = double(step.count);
    return {.keep = attrs.decoupled ? float(1 - lr * double(attrs.weight_decay)) : 1.0f,
            .decay = attrs.decoupled ? 0.0f : attrs.weight_decay,
            .first = float(1 - attrs.beta1),
            .beta2 = float(attrs.beta2),
            .second = float(1 - attrs.beta2),
            .rate = float(lr / (1 - pow(attrs.beta1, t))),
            .root = float(1 / sqrt(1 - pow(attrs.beta2, t))),
            .eps = attrs.eps};
  }
  __device__ static void apply(const Rule& rule, float g, float& w, float (&s)[2]) {
    const Adam::Out y = rule(w, g, s[0], s[1]);
    w = y.w, s[0] = y.m, s[1] = y.v;
  }
};

void run_adam(const KernelArgs& a) { run_update(a, AdamUpdate{a.attrs.as<AdamAttrs>()}); }

}  // namespace

const Backend adam_cuda{.run = run_adam};

}  // namespace pal
