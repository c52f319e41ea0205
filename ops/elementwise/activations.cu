// relu, clip, tanh, sigmoid and their gradients by the functors of the CPU's kernels.
#include "ops/elementwise/activations.h"
#include "ops/kernels/cuda_elements.h"

namespace pal {

const Backend clip_cuda{.run = run_map<1, Clip>};
const Backend pass_inside_cuda{.run = run_map<2, PassInside>};
const Backend relu_cuda{.run = run_map<1, Relu>};
const Backend sigmoid_cuda{.run = run_map<1, Sigmoid>};
const Backend sigmoid_grad_cuda{.run = run_map<2, SigmoidGrad>};
const Backend tanh_cuda{.run = run_map<1, Tanh>};
const Backend tanh_grad_cuda{.run = run_map<2, TanhGrad>};

}  // namespace pal
