// relu, clip, tanh, sigmoid and their gradients by the functors of the CPU's kernels.
#include "ops/elementwise/activations.h"
#include "ops/kernels/cuda_elements.h"

namespace pal {
namespace {

void run_clip(const KernelArgs& a) {
  auto& attrs = a.attrs.as<IntervalAttrs>();
  launch_map<1>(a, Clip{attrs.lo, attrs.hi});
}
void run_pass_inside(const KernelArgs& a) {
  auto& attrs = a.attrs.as<IntervalAttrs>();
  launch_map<2>(a, PassInside{attrs.lo, attrs.hi}, bits_of_interval(attrs.lo, attrs.hi));
}

}  // namespace

const Backend clip_cuda{.run = run_clip};
const Backend pass_inside_cuda{.run = run_pass_inside};
const Backend relu_cuda{.run = run_map<1, Relu>};
const Backend sigmoid_cuda{.run = run_map<1, Sigmoid>};
const Backend sigmoid_grad_cuda{.run = run_map<2, SigmoidGrad>};
const Backend tanh_cuda{.run = run_map<1, Tanh>};
const Backend tanh_grad_cuda{.run = run_map<2, TanhGrad>};

}  // namespace pal
