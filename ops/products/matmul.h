// Matrix products on plain row-major operands, with an accumulator and a bias folded in.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef matmul_op;
[[gnu::weak]] extern const Backend matmul_cuda;

struct MatmulAttrs {
  bool ta = false, tb = false;
  DType dtype = DType::f32;  // of the result
  // Of rows that are wider than what they hold (memory/passes/even_rows.h), 0: all of it. Columns
  // of a and of b that count, where a alone is transposed; elements of the bias, which the columns
  // behind them do without.
  int64_t a_columns = 0, b_columns = 0, biased = 0;
  auto fields() const {
    return std::tuple{field("ta", ta),
                      field("tb", tb),
                      field("dtype", dtype),
                      rare_field("a_columns", a_columns),
                      rare_field("b_columns", b_columns),
                      rare_field("biased", biased)};
  }
};

struct ProductShape;  // ops/libraries/matmul_product.h
// Rows and columns of op(a) and op(b), and where they lie, from a, b, c and bias.
ProductShape matmul_product(SpecSpan in, const MatmulAttrs& attrs);
// The result of these operands, checked.
Specs infer_matmul(SpecSpan in, const MatmulAttrs& attrs);
// Whether a card reads a bias in the result's type: where the operands have it too.
bool rounds_bias(SpecSpan in, const MatmulAttrs& attrs);
DType matmul_card_type(size_t operand, SpecSpan in, const Attrs& attrs);  // OpDef::card_type
// What matmul_relu is tested with, too.
std::vector<Example> matmul_examples();

// op(a)·op(b) (+ bias, in every row) (+ c), op the identity or, with ta or tb, the transpose; the
// result may be written over c. Operands f32, bf16 or f16, sums in f32, c of the result's type; the
// bias f32, or as a card reads it.
//   neither:  (.., K)·(K, N) -> (.., N); leading axes count as rows
//   tb:       (.., K)·(N, K)ᵀ -> (.., N)
//   ta:       (.., M)ᵀ·(.., N) -> (M, N), summed over all leading axes: a weight's gradient
//   both:     (K, M)ᵀ·(N, K)ᵀ -> (M, N)
Val matmul(Val a, Val b, bool ta, bool tb, Val c, DType dtype);
// Of a's type.
Val matmul(Val a, Val b, bool ta = false, bool tb = false, Val c = {});

// x·w + bias: (.., K)·(K, N) + (N) -> (.., N).
Val linear(Val x, Val w, Val bias = {});

}  // namespace pal
