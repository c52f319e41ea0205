// g' = clamp(scale g) + weight_decay w
// sgd: w - lr g'.   momentum (Polyak; Nesterov as in Sutskever et al. 2013, PyTorch's form):
//   m' = mu m + g';  w - lr m'  or  w - lr (g' + mu m')
#include "ops/optimizer/sgd.h"

#include "core/builder.h"
#include "ops/optimizer/update.h"

namespace pal {

const OpDef sgd_op = update_op<Sgd, SgdAttrs, sgd_op>({
    .name = "sgd",
    .formula = "w - lr (clamp(scale g) + weight_decay w)",
    .cuda = &sgd_cuda,
    .examples = update_examples({}, SgdAttrs{}, SgdAttrs{0.5f, 0.1f, 0.3f}),
});

const OpDef momentum_op = update_op<Momentum, MomentumAttrs, momentum_op>({
    .name = "momentum",
    .formula = "m' = mu m + clamp(scale g) + weight_decay w, w - lr m' (nesterov: g' + mu m')",
    .cuda = &momentum_cuda,
    .examples = update_examples({-2}, MomentumAttrs{}, MomentumAttrs{0.5f, 0.1f, 0.3f, 0.8f, true}),
});

Val sgd(Val w, Val g, Val scalars, Val gate, SgdAttrs attrs) {
  return w.builder->emit1(sgd_op, {w, g, scalars, gate}, attrs);
}
Val momentum(Val w, Val g, Val m, Val scalars, Val gate, MomentumAttrs attrs) {
  return w.builder->emit1(momentum_op, {w, g, m, scalars, gate}, attrs);
}

}  // namespace pal
