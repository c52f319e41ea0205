// g' = clamp(scale g) + weight_decay w
// sgd: w - lr g'.   momentum (Polyak; Nesterov as in Sutskever et al. 2013, PyTorch's form):
//   m' = mu m + g';  w - lr m'  or  w - lr (g' + mu m')
#include "ops/optimizer/sgd.h"

#include "core/builder.h"
#include "ops/optimizer/update.h"

namespace pal {
namespace {

void run_sgd(const KernelArgs& a) {
  auto& attrs = a.attrs.as<SgdAttrs>();
  const UpdateStep step =
      update_step(a.in[2], input_if_present<float>(a, 3), attrs.lr, attrs.clip_value);
  if (!step.apply) return keep_states(a, sgd_op);
  const Sgd rule{step.learning_rate, attrs.weight_decay};
  const GradientScale scaled = step.gradient;
  const float* w_in = a.input(0);
  float* w_out = a.output(0);
  for_gradient_tiles(a, [&](const float* g, int64_t i, int64_t n) {
    const float* w = w_in + i;
    float* to = w_out + i;
    const Sgd local = rule;  // seen through the closure, stores could change it
    const GradientScale scale = scaled;
#pragma omp simd
    for (int64_t e = 0; e < n; ++e) to[e] = local(w[e], scale(g[e]));
  });
}

void run_momentum(const KernelArgs& a) {
  auto& attrs = a.attrs.as<MomentumAttrs>();
  const UpdateStep step =
      update_step(a.in[3], input_if_present<float>(a, 4), attrs.lr, attrs.clip_value);
  if (!step.apply) return keep_states(a, momentum_op);
  const Momentum rule{step.learning_rate, attrs.weight_decay, attrs.momentum, attrs.nesterov};
  const GradientScale scaled = step.gradient;
  const float *w_in = a.input(0), *m_in = a.input(2);
  float *w_out = a.output(0), *m_out = a.output(1);
  for_gradient_tiles(a, [&](const float* g, int64_t i, int64_t n) {
    const float *w = w_in + i, *m = m_in + i;
    float *to_w = w_out + i, *to_m = m_out + i;
    const Momentum local = rule;
    const GradientScale scale = scaled;
#pragma omp simd
    for (int64_t e = 0; e < n; ++e) {
      const Momentum::Out y = local(w[e], scale(g[e]), m[e]);
      to_w[e] = y.w, to_m[e] = y.m;
    }
  });
}

std::vector<Example> sgd_examples() {
  return update_examples({}, SgdAttrs{}, SgdAttrs{0.5f, 0.1f, 0.3f});
}
std::vector<Example> momentum_examples() {
  return update_examples({-2}, MomentumAttrs{}, MomentumAttrs{0.5f, 0.1f, 0.3f, 0.8f, true});
}

}  // namespace

const OpDef sgd_op{
    .name = "sgd",
    .formula = "w - lr (clamp(scale g) + weight_decay w)",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      (void)attrs.as<SgdAttrs>();
      return infer_groups(sgd_op, in, [](SpecSpan group) -> Specs {
        check_update_operands(group, 0);
        return {plain(group[0])};
      });
    },
    .optional_from = 3,
    .arity = 4,
    .shares = {{0, 0}},
    .writes_state = true,
    .cpu = {.run = [](const KernelArgs& a) { run_groups(sgd_op, a, run_sgd); }},
    .cuda = &sgd_cuda,
    .examples = sgd_examples(),
};

const OpDef momentum_op{
    .name = "momentum",
    .formula = "m' = mu m + clamp(scale g) + weight_decay w, w - lr m' (nesterov: g' + mu m')",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      (void)attrs.as<MomentumAttrs>();
      return infer_groups(momentum_op, in, [](SpecSpan group) -> Specs {
        check_update_operands(group, 1);
        return {plain(group[0]), plain(group[2])};
      });
    },
    .optional_from = 4,
    .arity = 5,
    .shares = {{0, 0}, {1, 2}},
    .writes_state = true,
    .cpu = {.run = [](const KernelArgs& a) { run_groups(momentum_op, a, run_momentum); }},
    .cuda = &momentum_cuda,
    .examples = momentum_examples(),
};

Val sgd(Val w, Val g, Val scalars, Val gate, SgdAttrs attrs) {
  return w.builder->emit1(sgd_op, {w, g, scalars, gate}, attrs);
}
Val momentum(Val w, Val g, Val m, Val scalars, Val gate, MomentumAttrs attrs) {
  return w.builder->emit1(momentum_op, {w, g, m, scalars, gate}, attrs);
}

}  // namespace pal
