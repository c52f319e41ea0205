// What matmul and batched_matmul share on the CPU.
#pragma once
#include <memory>

#include "ops/kernels/f32_copies.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/tiles.h"
#include "ops/libraries/matmul_product.h"

namespace pal {

// Where operands are stored in a type that the processor does not multiply, or in two different
// ones, f32 copies in the workspace stand for them: a, b, the bias and the result, after the
// product's own scratch.
struct ProductState {
  std::unique_ptr<Product> product;
  F32Copies copies;
};

// a, b, c and bias; c and bias may be absent.
inline void run_product(const KernelArgs& a) {
  const ProductState& s = *static_cast<const ProductState*>(a.state);
  const float *left = f32_operand(a, 0, s.copies.a), *right = f32_operand(a, 1, s.copies.b);
  float* result = f32_result(a, s.copies.out, input_if_present(a, 2));
  const float* bias = input_if_present(a, 3) ? f32_operand(a, 3, s.copies.bias) : nullptr;
  s.product->run(left, right, result, bias, a.workspace, a.queue);
  store_f32_result(a, s.copies.out);
}

inline Cost product_cost(const ProductShape& p, SpecSpan in, SpecSpan out) {
  const double results = double(p.batch) * double(p.m) * double(p.n);
  return streaming_cost(2 * results * double(p.k) + results * (p.accumulate + p.bias), in, out);
}

}  // namespace pal
