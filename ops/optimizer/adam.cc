// Kingma & Ba 2015; AdamW: Loshchilov & Hutter 2019. The formula is in adam.h.
#include "ops/optimizer/adam.h"

#include "core/builder.h"
#include "ops/optimizer/update.h"

namespace pal {

const OpDef adam_op = update_op<Adam, AdamAttrs, adam_op>({
    .name = "adam",
    .formula = "w - lr / (1 - b1^t) m' / (sqrt(v' / (1 - b2^t)) + eps), m' and v' running moments",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      auto& adam = attrs.as<AdamAttrs>();
      require(adam.beta1 >= 0 && adam.beta1 < 1 && adam.beta2 >= 0 && adam.beta2 < 1,
              "want betas from 0 to below 1");
      return infer_updates(adam_op, in, adam.ranks);
    },
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
      double elements = 0;
      for (auto& spec : out) elements += double(spec.numel());
      return streaming_cost(6 * elements, in, out);
    },
    .cuda = &adam_cuda,
    .examples = update_examples({-2, 0}, AdamAttrs{.weight_decay = 0.1f},
                                AdamAttrs{0.5f, 0.8, 0.95, 1e-6f, 0.1f, true, 0.3f}),
});

Val adam(Val w, Val g, Val m, Val v, Val scalars, Val gate, AdamAttrs attrs) {
  return w.builder->emit1(adam_op, {w, g, m, v, scalars, gate}, attrs);
}

}  // namespace pal
