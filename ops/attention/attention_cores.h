// attention and its gradient on tensor cores, for attention.cu: factors are bf16 or TF32, sums f32,
// and in an order of their own, so results are those of the other kernels but for rounding. The
// same dropout's numbers, masks and lengths; the same bits each time.
#pragma once
#include "core/device.h"
#include "ops/attention/cuda_attention.h"

namespace pal {

// What tensor cores multiply: nothing, bf16 operands as they are, or f32 ones rounded to TF32.
enum class Cores { none, bf16, tf32 };

// bf16 wherever the device has it; f32 where it is set to TF32; heads of up to 128 and 64 columns.
inline Cores cores_for(const Device& device, DType type, int64_t width) {
  if (!device.accelerator->has_bf16()) return Cores::none;
  if (type == DType::bf16 && width <= 128) return Cores::bf16;
  if (type == DType::f32 && width <= 64 && device.tf32) return Cores::tf32;
  return Cores::none;
}

// out and lse may be null; out may lie over q.
void attention_on_cores(Cores cores, const KernelArgs& a, const CudaAttention& call,
                        const HeadRows& out, float* lse);
// dq, dk, dv, each of which may be null. With dq, `delta` is made; without, it is there.
void attention_grad_on_cores(Cores cores, const KernelArgs& a, const AttentionGrad& grad);

}  // namespace pal
