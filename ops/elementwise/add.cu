// add, as on the CPU: the same functor, the same bits (-fmad=false).
#include "ops/elementwise/add.h"
#include "ops/kernels/cuda_elements.h"

namespace pal {

const Backend add_cuda{.run = run_map<2, Add>};

}  // namespace pal
