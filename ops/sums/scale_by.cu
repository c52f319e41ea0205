// scale_by, whose factor lies on the device, and inner_product.
#include "ops/kernels/operands.h"
#include "ops/sums/cuda_sums.h"
#include "ops/sums/scale_by.h"

namespace pal {
namespace {

// y = factor x, the factor on the device.
__global__ void scale_by_kernel(Operands<1> a, const float* factor) {
  const int64_t i = thread_number() * kGroup;
  if (i >= a.n) return;
  const int n = group_size(i, a.n);
  const float by = *factor;
  float x[kGroup];
  load8(a.in[0], i, n, x);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) x[k] = by * x[k];
  store8(a.out, i, n, x);
}
void run_scale_by(const KernelArgs& a) {
  const Operands<1> operands{.in = {stored(a.in[0], a.in_spec[0])},
                             .out = stored(a.out[0], a.out_spec[0]),
                             .n = a.out_spec[0].numel()};
  launch(scale_by_kernel, grid_of_groups(groups_of(operands.n)), kThreads, 0, stream_of(a),
         operands, a.input(1));
}

void run_inner_product(const KernelArgs& a) {
  sum_products(a, 0, 1, input_if_present<float>(a, 2));
}

}  // namespace

const Backend inner_product_cuda{.run = run_inner_product, .prepare = prepare_products};
const Backend scale_by_cuda{.run = run_scale_by};

}  // namespace pal
