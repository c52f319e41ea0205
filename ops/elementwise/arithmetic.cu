// mul, sub and scale by the functors of the CPU's kernels.
#include "ops/elementwise/arithmetic.h"
#include "ops/kernels/cuda_elements.h"

namespace pal {

const Backend mul_cuda{.run = run_map<2, Mul>};
const Backend scale_cuda{.run = run_map<1, Scale>};
const Backend sub_cuda{.run = run_map<2, Sub>};

}  // namespace pal
