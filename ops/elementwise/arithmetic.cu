// mul, sub and scale by the functors of the CPU's kernels.
#include "ops/elementwise/arithmetic.h"
#include "ops/kernels/cuda_elements.h"

namespace pal {
namespace {

void run_scale(const KernelArgs& a) { launch_map<1>(a, Scale{a.attrs.as<ScaleAttrs>().factor}); }

}  // namespace

const Backend mul_cuda{.run = run_map<2, Mul>};
const Backend scale_cuda{.run = run_scale};
const Backend sub_cuda{.run = run_map<2, Sub>};

}  // namespace pal
