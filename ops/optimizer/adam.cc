// Kingma & Ba 2015; AdamW: Loshchilov & Hutter 2019. The formula is in adam.h. The bias corrections
// are taken in double from the step's number, once a node.
#include "ops/optimizer/adam.h"

#include <cmath>

#include "core/builder.h"
#include "ops/optimizer/update.h"

namespace pal {
namespace {

// w, g, m, v, scalars | gate -> w, m, v
void run(const KernelArgs& a) {
  auto& attrs = a.attrs.as<AdamAttrs>();
  const UpdateStep step =
      update_step(a.in[4], input_if_present<float>(a, 5), attrs.lr, attrs.clip_value);
  if (!step.apply) return keep_states(a, adam_op);
  const double lr = step.learning_rate, t = double(step.count);
  const Adam rule{
      .keep = attrs.decoupled ? float(1 - lr * attrs.weight_decay) : 1.0f,
      .decay = attrs.decoupled ? 0.0f : attrs.weight_decay,
      .first = float(1 - attrs.beta1),
      .beta2 = float(attrs.beta2),
      .second = float(1 - attrs.beta2),
      .rate = float(lr / (1 - std::pow(attrs.beta1, t))),
      .root = float(1 / std::sqrt(1 - std::pow(attrs.beta2, t))),
      .eps = attrs.eps,
  };
  const GradientScale scaled = step.gradient;
  const float *w_in = a.input(0), *m_in = a.input(2), *v_in = a.input(3);
  float *w_out = a.output(0), *m_out = a.output(1), *v_out = a.output(2);
  for_gradient_tiles(a, [&](const float* g, int64_t i, int64_t n) {
    const float *w = w_in + i, *m = m_in + i, *v = v_in + i;
    float *to_w = w_out + i, *to_m = m_out + i, *to_v = v_out + i;
    const Adam local = rule;  // seen through the closure, stores could change it
    const GradientScale scale = scaled;
#pragma omp simd
    for (int64_t e = 0; e < n; ++e) {
      const Adam::Out y = local(w[e], scale(g[e]), m[e], v[e]);
      to_w[e] = y.w, to_m[e] = y.m, to_v[e] = y.v;
    }
  });
}

Cost cost(SpecSpan in, SpecSpan out, const Attrs&) {
  Cost c;
  for (auto& spec : in) c.bytes += present(spec) ? double(spec.bytes()) : 0;
  for (auto& spec : out) c.bytes += double(spec.bytes()), c.flops += 6.0 * double(spec.numel());
  return c;
}

std::vector<Example> examples() {
  return update_examples({-2, 0}, AdamAttrs{.weight_decay = 0.1f},
                         AdamAttrs{0.5f, 0.8, 0.95, 1e-6f, 0.1f, true, 0.3f});
}

}  // namespace

const OpDef adam_op{
    .name = "adam",
    .formula = "w - lr / (1 - b1^t) m' / (sqrt(v' / (1 - b2^t)) + eps), m' and v' running moments",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      auto& adam_attrs = attrs.as<AdamAttrs>();
      require(adam_attrs.beta1 >= 0 && adam_attrs.beta1 < 1 && adam_attrs.beta2 >= 0 &&
                  adam_attrs.beta2 < 1,
              "want betas from 0 to below 1");
      return infer_groups(adam_op, in, [](SpecSpan group) -> Specs {
        check_update_operands(group, 2);
        return {plain(group[0]), plain(group[2]), plain(group[3])};
      });
    },
    .optional_from = 5,
    .arity = 6,
    .shares = {{0, 0}, {1, 2}, {2, 3}},
    .cost = cost,
    .writes_state = true,
    .cpu = {.run = [](const KernelArgs& a) { run_groups(adam_op, a, run); }},
    .cuda = &adam_cuda,
    .examples = examples(),
};

Val adam(Val w, Val g, Val m, Val v, Val scalars, Val gate, AdamAttrs attrs) {
  return w.builder->emit1(adam_op, {w, g, m, v, scalars, gate}, attrs);
}

}  // namespace pal
