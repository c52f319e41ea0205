// sgd and momentum, one or several weights in a launch.
#include "ops/optimizer/cuda_update.h"
#include "ops/optimizer/sgd.h"

namespace pal {
namespace {

struct SgdUpdate {
  static constexpr int kStates = 0;
  SgdAttrs attrs;
  using Rule = Sgd;
  __device__ Rule rule(const UpdateStep& step) const {
    return {step.learning_rate, attrs.weight_decay};
  }
  __device__ static void apply(const Rule& rule, float g, float& w, float (&)[2]) {
    w = rule(w, g);
  }
};
struct MomentumUpdate {
  static constexpr int kStates = 1;
  MomentumAttrs attrs;
  using Rule = Momentum;
  __device__ Rule rule(const UpdateStep& step) const {
    return {step.learning_rate, attrs.weight_decay, attrs.momentum, attrs.nesterov};
  }
  __device__ static void apply(const Rule& rule, float g, float& w, float (&s)[2]) {
    const Momentum::Out y = rule(w, g, s[0]);
    w = y.w, s[0] = y.m;
  }
};

void run_sgd(const KernelArgs& a) { run_update(a, SgdUpdate{a.attrs.as<SgdAttrs>()}); }
void run_momentum(const KernelArgs& a) {
  run_update(a, MomentumUpdate{a.attrs.as<MomentumAttrs>()});
}

}  // namespace

const Backend momentum_cuda{.run = run_momentum};
const Backend sgd_cuda{.run = run_sgd};

}  // namespace pal
