// The elementwise operators: the functors of the CPU's kernels, eight elements a thread, and the
// same bits, as no product is contracted with a sum (-fmad=false).
#include "core/scalars.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/dropout.h"
#include "ops/elementwise/self_gated.h"
#include "ops/kernels/cuda.h"
#include "ops/kernels/cuda_elements.h"
#include "ops/kernels/operands.h"
#include "ops/sums/dot_last.h"
#include "ops/tensors/copies.h"
#include "ops/tensors/fill.h"

namespace pal {
namespace {

struct Identity {
  PAL_HD float operator()(float x) const { return x; }
};
struct Inside {
  float lo, hi;
  PAL_HD float operator()(float x) const { return ((lo < x) & (x < hi)) ? 1.0f : 0.0f; }
};

// Functors without fields, as they are.
template <int N, class F> void run_plain(const KernelArgs& a) { launch_map<N>(a, F{}); }

void run_clip(const KernelArgs& a) {
  auto& attrs = a.attrs.as<IntervalAttrs>();
  launch_map<1>(a, Clip{attrs.lo, attrs.hi});
}
void run_pass_inside(const KernelArgs& a) {
  auto& attrs = a.attrs.as<IntervalAttrs>();
  launch_map<2>(a, PassInside{attrs.lo, attrs.hi}, bits_of_interval(attrs.lo, attrs.hi));
}
void run_scale(const KernelArgs& a) { launch_map<1>(a, Scale{a.attrs.as<ScaleAttrs>().factor}); }
void run_dropout_apply(const KernelArgs& a) {
  launch_map<2>(a, DropoutApply{dropout_scale(a.attrs.as<DropoutApplyAttrs>().p)});
}
void run_to_bits(const KernelArgs& a) {
  auto& attrs = a.attrs.as<BitsAttrs>();
  launch_map<1>(a, Inside{attrs.lo, attrs.hi}, bits_of_interval(attrs.lo, attrs.hi));
}
void run_cast(const KernelArgs& a) {
  if (!a.out[0]) return;
  if (a.in_spec[0].dtype == a.out_spec[0].dtype) {
    return copy_async(a, a.out[0], a.in[0], a.out_spec[0].bytes());
  }
  launch_map<1>(a, Identity{});
}

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
  if (!a.out[0]) return;
  const Operands<1> operands{.in = {stored(a.in[0], a.in_spec[0])},
                             .out = stored(a.out[0], a.out_spec[0]),
                             .n = a.out_spec[0].numel()};
  launch(scale_by_kernel, grid_of_groups(groups_of(operands.n)), kThreads, 0, stream_of(a),
         operands, a.input(1));
}

// The same bits: a conversion there and back would not keep every NaN.
__device__ void keep8(const Stored& to, const Stored& from, int64_t i, int n) {
  if (to.data == from.data) return;
  const bool half = to.type == DType::bf16 || to.type == DType::f16;
  for (int k = 0; k < n; ++k) {
    if (half)
      static_cast<uint16_t*>(to.data)[i + k] = static_cast<uint16_t*>(from.data)[i + k];
    else
      static_cast<uint32_t*>(to.data)[i + k] = static_cast<uint32_t*>(from.data)[i + k];
  }
}

// Updates of a state from (old, x): x in the state's type, or old + momentum (x - old); old itself,
// bit for bit, where there is a gate and it is shut (gate[1] is Gate::apply).
__global__ void state_kernel(Operands<2> a, const float* gate, bool average, float momentum) {
  const int64_t i = thread_number() * kGroup;
  if (i >= a.n) return;
  const int n = group_size(i, a.n);
  if (gate && gate[1] == 0) return keep8(a.out, a.in[0], i, n);
  float old[kGroup], x[kGroup];
  load8(a.in[0], i, n, old);
  load8(a.in[1], i, n, x);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    if (average) x[k] = old[k] + momentum * (x[k] - old[k]);
  }
  store8(a.out, i, n, x);
}
void update_state(const KernelArgs& a, bool average, float momentum) {
  if (!a.out[0]) return;
  Operands<2> operands{.out = stored(a.out[0], a.out_spec[0]), .n = a.out_spec[0].numel()};
  for (size_t k = 0; k < 2; ++k) operands.in[k] = stored(a.in[k], a.in_spec[k]);
  launch(state_kernel, grid_of_groups(groups_of(operands.n)), kThreads, 0, stream_of(a), operands,
         input_if_present<float>(a, 2), average, momentum);
}
void run_assign(const KernelArgs& a) {
  // A type that stays as it is is moved, unless a gate has to be asked first. The kernel knows
  // elements of two and of four bytes.
  const DType type = a.in_spec[0].dtype;
  const bool moved = type == a.in_spec[1].dtype && !input_if_present(a, 2);
  require(moved || is_float(type) || type == DType::i32, "assign",
          to_string(a.in_spec[0]) + " cannot be assigned behind a gate on a GPU");
  if (!moved) return update_state(a, false, 0);
  if (a.out[0]) copy_async(a, a.out[0], a.in[1], a.out_spec[0].bytes());
}
void run_moving_average(const KernelArgs& a) {
  update_state(a, true, a.attrs.as<MovingAverageAttrs>().momentum);
}

// A value in every element: four bytes at a time, then the bytes that are left.
__global__ void fill_kernel(uint8_t* y, int64_t bytes, uint32_t pattern, uint8_t last) {
  const int64_t i = thread_number() * 4;
  if (i >= bytes) return;
  for (int k = 0; k < 4 && i + k < bytes; ++k) {
    y[i + k] = i + k + 1 == bytes ? last : uint8_t(pattern >> (8 * k));
  }
}
__global__ void fill_words_kernel(uint32_t* y, int64_t words, uint32_t pattern) {
  const int64_t i = thread_number() * 4;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (i + k < words) y[i + k] = pattern;
  }
}
// Four bytes of the pattern that the value makes in memory.
uint32_t fill_pattern(DType type, float value) {
  switch (type) {
    case DType::f32: return float_bits(value);
    case DType::bf16: return from_float<bf16>(value).bits * 0x10001u;
    case DType::f16: return from_float<f16>(value).bits * 0x10001u;
    case DType::i32: return uint32_t(int32_t(value));
    case DType::u8: return uint8_t(value) * 0x1010101u;
    case DType::bit: break;
  }
  return value > 0 ? 0xffffffffu : 0;
}
void run_fill(const KernelArgs& a) {
  if (!a.out[0]) return;
  const TensorSpec& spec = a.out_spec[0];
  const float value = a.attrs.as<FillAttrs>().value;
  const int64_t bytes = spec.bytes(), n = spec.numel();
  const uint32_t pattern = fill_pattern(spec.dtype, value);
  if (bytes % 4 == 0 && reinterpret_cast<uintptr_t>(a.out[0]) % 4 == 0 &&
      spec.dtype != DType::bit) {
    return launch(fill_words_kernel, {blocks_of(bytes / 4, 4 * kThreads)}, kThreads, 0,
                  stream_of(a), a.output<uint32_t>(0), bytes / 4, pattern);
  }
  uint8_t last = bytes ? uint8_t(pattern >> (8 * ((bytes - 1) % 4))) : 0;
  if (spec.dtype == DType::bit && n % 8 && last) last = uint8_t((1u << (n % 8)) - 1);
  launch(fill_kernel, {blocks_of(bytes, 4 * kThreads)}, kThreads, 0, stream_of(a),
         a.output<uint8_t>(0), bytes, pattern, last);
}

// Eight factors a thread, 0 or 1/(1-p): two draws of four numbers.
__device__ void factors8(const RandomKey& key, int64_t i, float p, float* factor) {
  const float scale = dropout_scale(p);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Philox4 numbers = draw(key, uint64_t(i) / 4 + uint64_t(half));
#pragma unroll
    for (int k = 0; k < 4; ++k) factor[4 * half + k] = dropout_factor(numbers.x[k], p, scale);
  }
}
__global__ void dropout_mask_kernel(Stored y, int64_t size, const StepScalars* scalars,
                                    uint32_t stream, float p) {
  const int64_t i = thread_number() * kGroup;
  if (i >= size) return;
  float factor[kGroup];
  factors8(scalars->key(stream), i, p, factor);
  store8(y, i, group_size(i, size), factor);
}
__global__ void dropout_kernel(Operands<1> a, const StepScalars* scalars, uint32_t stream,
                               float p) {
  const int64_t i = thread_number() * kGroup;
  if (i >= a.n) return;
  const int n = group_size(i, a.n);
  const DropoutApply apply{dropout_scale(p)};
  float factor[kGroup], x[kGroup];
  factors8(scalars->key(stream), i, p, factor);
  load8(a.in[0], i, n, x);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) x[k] = apply(x[k], factor[k]);
  store8(a.out, i, n, x);
}
void run_dropout_mask(const KernelArgs& a) {
  if (!a.out[0]) return;
  auto& attrs = a.attrs.as<DropoutMaskAttrs>();
  const int64_t size = a.out_spec[0].numel();
  launch(dropout_mask_kernel, grid_of_groups(groups_of(size)), kThreads, 0, stream_of(a),
         stored(a.out[0], a.out_spec[0]), size, a.input<StepScalars>(0), uint32_t(attrs.stream),
         attrs.p);
}
void run_dropout(const KernelArgs& a) {
  if (!a.out[0]) return;
  auto& attrs = a.attrs.as<DropoutAttrs>();
  const Operands<1> operands{.in = {stored(a.in[0], a.in_spec[0])},
                             .out = stored(a.out[0], a.out_spec[0]),
                             .n = a.out_spec[0].numel()};
  launch(dropout_kernel, grid_of_groups(groups_of(operands.n)), kThreads, 0, stream_of(a), operands,
         a.input<StepScalars>(1), uint32_t(attrs.stream), attrs.p);
}

}  // namespace

const Backend add_cuda{.run = run_plain<2, Add>};
const Backend assign_cuda{.run = run_assign};
const Backend cast_cuda{.run = run_cast};
const Backend clip_cuda{.run = run_clip};
const Backend dropout_apply_cuda{.run = run_dropout_apply};
const Backend dropout_cuda{.run = run_dropout};
const Backend dropout_mask_cuda{.run = run_dropout_mask};
const Backend fill_cuda{.run = run_fill};
const Backend gelu_cuda{.run = run_plain<1, Gelu>};
const Backend gelu_grad_cuda{.run = run_plain<2, GeluGrad>};
const Backend moving_average_cuda{.run = run_moving_average};
const Backend mul_cuda{.run = run_plain<2, Mul>};
const Backend pass_inside_cuda{.run = run_pass_inside};
const Backend relu_cuda{.run = run_plain<1, Relu>};
const Backend scale_by_cuda{.run = run_scale_by};
const Backend scale_cuda{.run = run_scale};
const Backend sigmoid_cuda{.run = run_plain<1, Sigmoid>};
const Backend sigmoid_grad_cuda{.run = run_plain<2, SigmoidGrad>};
const Backend silu_cuda{.run = run_plain<1, Silu>};
const Backend silu_grad_cuda{.run = run_plain<2, SiluGrad>};
const Backend sub_cuda{.run = run_plain<2, Sub>};
const Backend tanh_cuda{.run = run_plain<1, Tanh>};
const Backend tanh_grad_cuda{.run = run_plain<2, TanhGrad>};
const Backend to_bits_cuda{.run = run_to_bits};

}  // namespace pal
