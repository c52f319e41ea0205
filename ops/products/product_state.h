// What matmul and batched_matmul share on the CPU.
#pragma once
#include <algorithm>
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
  // A bias that is shorter than the result's rows is copied into one, where the rest is zero.
  int64_t bias_row = 0, bias_row_at = 0;  // elements, 0: none; where in the workspace
};

inline const float* bias_of(const KernelArgs& a, const ProductState& s) {
  if (!input_if_present(a, 3)) return nullptr;
  if (!s.bias_row) return f32_operand(a, 3, s.copies.bias);
  float* const row = reinterpret_cast<float*>(a.workspace + s.bias_row_at);
  const int64_t n = a.in_spec[3].numel();
  for (int64_t i = 0; i < n; i += kTile) {
    const int64_t some = std::min(kTile, n - i);
    const float* from = load_tile(a.in[3], a.in_spec[3].dtype, i, some, row + i);
    if (from != row + i) std::copy_n(from, some, row + i);
  }
  std::fill(row + n, row + s.bias_row, 0.0f);
  return row;
}

// a, b, c and bias; c and bias may be absent.
inline void run_product(const KernelArgs& a) {
  const ProductState& s = *static_cast<const ProductState*>(a.state);
  const float *left = f32_operand(a, 0, s.copies.a), *right = f32_operand(a, 1, s.copies.b);
  float* result = f32_result(a, s.copies.out, input_if_present(a, 2));
  const float* bias = bias_of(a, s);
  s.product->run(left, right, result, bias, a.workspace, a.queue);
  store_f32_result(a, s.copies.out);
}

inline Cost product_cost(const ProductShape& p, SpecSpan in, SpecSpan out) {
  const double results = double(p.batch) * double(p.m) * double(p.n);
  return streaming_cost(2 * results * double(p.k) + results * (p.accumulate + p.bias), in, out);
}

}  // namespace pal
