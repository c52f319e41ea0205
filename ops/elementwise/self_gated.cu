// silu, gelu and gelu_tanh by the functors of the CPU's kernels.
#include "ops/elementwise/self_gated.h"
#include "ops/kernels/cuda_elements.h"

namespace pal {

const Backend gelu_cuda{.run = run_map<1, Gelu>};
const Backend gelu_grad_cuda{.run = run_map<2, GeluGrad>};
const Backend gelu_tanh_cuda{.run = run_map<1, GeluTanh>};
const Backend gelu_tanh_grad_cuda{.run = run_map<2, GeluTanhGrad>};
const Backend silu_cuda{.run = run_map<1, Silu>};
const Backend silu_grad_cuda{.run = run_map<2, SiluGrad>};

}  // namespace pal
