// dropout in its forms: a thread draws the factors of its own elements, the CPU's numbers.
#include "core/scalars.h"
#include "ops/elementwise/dropout.h"
#include "ops/kernels/cuda_elements.h"

namespace pal {
namespace {

// A thread's factors, 0 or 1/(1-p): two draws of four numbers.
__device__ void factors8(const RandomKey& key, const Eight& eight, float p, float* factor) {
  const float scale = dropout_scale(p);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Philox4 numbers = draw(key, uint64_t(eight.at[half]) / 4);
#pragma unroll
    for (int k = 0; k < 4; ++k) factor[4 * half + k] = dropout_factor(numbers.x[k], p, scale);
  }
}
__global__ void dropout_mask_kernel(Stored y, int64_t size, const StepScalars* scalars,
                                    uint32_t stream, float p) {
  const Eight eight(thread_number(), size, y.type == DType::f32);
  if (eight.none()) return;
  float factor[kGroup];
  factors8(scalars->key(stream), eight, p, factor);
  eight.store(y, factor);
}
// a[0] is dropped out; where there is a[1], rounded to its type, and a[1] added.
template <int N>
__global__ void dropout_kernel(Operands<N> a, const StepScalars* scalars, uint32_t stream,
                               float p) {
  const Eight eight(thread_number(), a.n, a.apart);
  if (eight.none()) return;
  const DropoutApply apply(p);
  float factor[kGroup], x[kGroup], sum[kGroup];
  factors8(scalars->key(stream), eight, p, factor);
  eight.load(a.in[0], x);
  if constexpr (N == 2) eight.load(a.in[1], sum);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    x[k] = apply(x[k], factor[k]);
    if constexpr (N == 2) x[k] = sum[k] + as_stored(a.out.type, x[k]);
  }
  eight.store(a.out, x);
}
void run_dropout_mask(const KernelArgs& a) {
  auto& attrs = a.attrs.as<DropoutMaskAttrs>();
  const int64_t size = a.out_spec[0].numel();
  launch(dropout_mask_kernel, grid_of_groups(groups_of(size)), a, stored(a.out[0], a.out_spec[0]),
         size, a.input<StepScalars>(0), uint32_t(attrs.stream), attrs.p);
}
// Operands: x, the scalars, and what is added where N is 2.
template <int N> void run_dropout(const KernelArgs& a) {
  auto& attrs = a.attrs.as<DropoutAttrs>();
  Operands<N> operands{.out = stored(a.out[0], a.out_spec[0]), .n = a.out_spec[0].numel()};
  for (size_t k = 0; k < size_t(N); ++k) operands.in[k] = stored(a.in[2 * k], a.in_spec[2 * k]);
  operands.choose_eights();
  launch(dropout_kernel<N>, grid_of_groups(groups_of(operands.n)), a, operands,
         a.input<StepScalars>(1), uint32_t(attrs.stream), attrs.p);
}

}  // namespace

const Backend dropout_add_cuda{.run = run_dropout<2>};
const Backend dropout_apply_cuda{.run = run_map<2, DropoutApply>};
const Backend dropout_cuda{.run = run_dropout<1>};
const Backend dropout_mask_cuda{.run = run_dropout_mask};

}  // namespace pal
