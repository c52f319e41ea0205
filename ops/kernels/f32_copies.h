// Tensors stored in 16 bits, for kernels that take f32 alone: f32 copies in the workspace stand for
// them.
#pragma once
#include "core/op.h"

namespace pal {

constexpr int64_t kNoCopy = -1;
// Where f32 copies of operands 0 and 1, of a bias, and of output 0 lie in the workspace; kNoCopy
// for what is f32 itself.
struct F32Copies {
  int64_t a = kNoCopy, b = kNoCopy, out = kNoCopy, bias = kNoCopy;
};
// Behind `bytes` of the workspace, which grow by them.
int64_t reserve_f32_copy(const TensorSpec& spec, int64_t& bytes);
F32Copies reserve_f32_copies(SpecSpan in, SpecSpan out, int64_t& bytes);

// Operand k as f32: itself, or its copy, which is made now.
const float* f32_operand(const KernelArgs& a, size_t k, int64_t at);
// Where output 0 is to be computed as f32; `sum`, of the output's type, lies there already if
// given.
float* f32_result(const KernelArgs& a, int64_t at, const void* sum = nullptr);
// Rounds the result into output 0, unless it was computed there.
void store_f32_result(const KernelArgs& a, int64_t at);

}  // namespace pal
