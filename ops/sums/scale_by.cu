// scale_by, whose factor lies on the device, and inner_product.
#include "ops/kernels/operands.h"
#include "ops/sums/cuda_sums.h"
#include "ops/sums/scale_by.h"

namespace pal {
namespace {

struct ScaleBy {
  const float* factor;  // on the device
  __device__ float operator()(float x) const { return *factor * x; }
};
void run_scale_by(const KernelArgs& a) { launch_map<1>(a, ScaleBy{a.input(1)}); }

void run_inner_product(const KernelArgs& a) {
  sum_products(a, 0, 1, input_if_present<float>(a, 2));
}

}  // namespace

const Backend inner_product_cuda{.run = run_inner_product, .prepare = prepare_products};
const Backend scale_by_cuda{.run = run_scale_by};

}  // namespace pal
