// Optional operands as inference and kernels see them.
#pragma once
#include "core/op.h"
#include "ops/kernels/tiles.h"

namespace pal {

// An absent operand's spec has no extents; no operand of the operators here is without any.
inline bool present(const TensorSpec& spec) { return spec.shape.rank() > 0; }

inline bool present(SpecSpan in, size_t k) { return k < in.size() && present(in[k]); }

// The operand's bytes, or null where it is absent.
template <class T = void> const T* input_if_present(const KernelArgs& a, size_t k) {
  return present(a.in_spec, k) ? static_cast<const T*>(a.in[k]) : nullptr;
}

inline TensorSpec plain(const TensorSpec& spec) { return {spec.shape, spec.dtype}; }

// An example operand in 16 bits whose gradient is compared with that of f32.
inline ExampleOperand half_example(Shape shape, DType type = DType::bf16) {
  return {.spec = {shape, type}};
}

// f32[1], as losses and factors are.
inline bool one_number(const TensorSpec& spec) {
  return spec.dtype == DType::f32 && spec.shape == Shape{1};
}

// The step's scalars as an operand of an example: such as a step has (the tests draw them where
// `lo` is negative), or any numbers.
inline ExampleOperand step_scalars_example() { return example({16}, DType::i32, -1, 0); }
inline ExampleOperand random_scalars_example() { return example({16}, DType::i32, 0, 1e6f); }

}  // namespace pal
