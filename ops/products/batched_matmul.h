// A matrix product for each element of a batch.
#pragma once
#include <optional>

#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef batched_matmul_op;
[[gnu::weak]] extern const Backend batched_matmul_cuda;

struct BatchedMatmulAttrs {
  bool ta = false, tb = false;
  // Which axis of a, b and the result counts the batch: 0, or 1 for time-major operands.
  int a_batch = 0, b_batch = 0, out_batch = 0;
  DType dtype = DType::f32;  // of the result
  auto fields() const {
    return std::tuple{field("ta", ta),
                      field("tb", tb),
                      field("a_batch", a_batch),
                      field("b_batch", b_batch),
                      field("out_batch", out_batch),
                      field("dtype", dtype)};
  }
};

struct ProductShape;  // ops/libraries/matmul_product.h
// The matrices of a, b and the result, and where they lie.
ProductShape batched_matmul_product(SpecSpan in, const BatchedMatmulAttrs& attrs);

// One product per batch element (+ c): a (B, M, K), b (B, K, N) -> (B, M, N); ta and tb swap the
// last two of a or b. Operands f32, bf16 or f16, sums in f32; the result, and c, are of `dtype`, or
// of a's type. Where a_batch, b_batch or out_batch is 1 that operand is time-major: (M,
// B, K), (K, B, N), (M, B, N), so that sequences (T, B, ..) need not be copied. Attention,
// time-major with heads folded into the batch: scores (B, T, S) = q (T, B, D) · k (S, B, D)ᵀ is
// {.tb = true, .a_batch = 1, .b_batch = 1}; context (T, B, D) = p (B, T, S) · v (S, B, D) is
// {.b_batch = 1, .out_batch = 1}.
Val batched_matmul(Val a, Val b, BatchedMatmulAttrs attrs = {}, Val c = {},
                   std::optional<DType> dtype = {});

}  // namespace pal
