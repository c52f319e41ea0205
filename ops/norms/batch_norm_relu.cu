// batch_norm with relu behind it, and its gradient, by the kernels of batch norm.
#include "ops/kernels/operands.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/batch_norm_relu.h"
#include "ops/norms/cuda_norm.h"
#include "ops/norms/cuda_norm_grad.h"
#include "ops/norms/cuda_norm_rows.h"

namespace pal {
namespace {

void run_forward(const KernelArgs& a) {
  const NormRows r = all_norm_rows(a.in_spec[0]);
  norm_forward(a, r, EveryRow{}, a.attrs.as<BatchNormAttrs>().eps,
               stored(input_if_present(a, 3), a.in_spec[0], r.channels), true);
}
void run_gradient(const KernelArgs& a) {
  const NormRows r = all_norm_rows(a.in_spec[0]);
  norm_gradient(a, r, EveryRow{}, a.input(3), a.input(4),
                RectifiedDy{floats(a.input(2), r.channels), floats(a.input(5), r.channels),
                            floats(a.input(3), r.channels), floats(a.input(4), r.channels),
                            a.in_spec[1].dtype});
}
Prepared prepare(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  return prepare_norm(all_norm_rows(in[0]));
}

}  // namespace

const Backend batch_norm_relu_cuda{.run = run_forward, .prepare = prepare};
const Backend batch_norm_relu_grad_cuda{.run = run_gradient, .prepare = prepare};

}  // namespace pal
