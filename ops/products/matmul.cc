// y = op(a) op(b) + bias + c.   With dy:  da = dy op(b)^T, db = op(a)^T dy (their transposes where
// op transposes), dbias = the sum of dy's rows, dc = dy. Gradients are added to running sums
// through c.
#include "ops/products/matmul.h"

#include "core/gradient.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/tiles.h"
#include "ops/products/product_state.h"
#include "ops/sums/reduce.h"

namespace pal {
namespace {

// Packing b by itself first pays where products of few rows share it, as time steps do ([M] 1.3x at
// 32 rows, 1.08x at 128). Larger matrices are those of classifiers, which one product reads: there
// a packed copy takes as many bytes as the weights, and 1.5 times as long as reading them where
// they are
// ([M] 32 rows, 9216 x 4096: 90 ms against 55, one thread).
constexpr int64_t kFewRows = 64, kLargestPacked = int64_t{32} << 20;  // bytes

std::string operands_text(SpecSpan in, const MatmulAttrs& attrs) {
  return to_string(in[0].shape) + (attrs.ta ? "ᵀ" : "") + "·" + to_string(in[1].shape) +
         (attrs.tb ? "ᵀ" : "");
}

}  // namespace

Specs infer_matmul(SpecSpan in, const MatmulAttrs& attrs) {
  require(in.size() == 3 || in.size() == 4, "takes a, b, c and bias; c and bias may be absent");
  auto text = [&] { return operands_text(in, attrs); };
  require(is_float(in[0].dtype) && is_float(in[1].dtype) && is_float(attrs.dtype) && !in[0].layout,
          in[0], ", ", in[1], ": needs plain floats");
  require(in[0].shape.rank() >= 2 && in[1].shape.rank() >= 2, text, ": needs two axes or more");
  require(!in[1].layout || in[1].shape.rank() == 2, in[1], ": only two axes may be packed");
  require(in[0].numel() > 0 && in[1].numel() > 0, text, ": is empty");
  Shape out;
  if (attrs.ta && !attrs.tb) {  // leading axes are summed over: they must agree one by one
    Shape rows_a = in[0].shape, rows_b = in[1].shape;
    rows_a = rows_a.without(rows_a.rank() - 1), rows_b = rows_b.without(rows_b.rank() - 1);
    require(rows_a == rows_b, text, ": inner dimensions differ");
    const ProductShape p = matmul_product(in, attrs);
    require(0 < p.m && p.m <= in[0].shape.back() && 0 < p.n && p.n <= in[1].shape.back(), text,
            ": ", p.m, " and ", p.n, " columns cannot count");
    out = {p.m, p.n};
  } else {
    require(attrs.a_columns == 0 && attrs.b_columns == 0, text,
            ": all columns count unless a alone is transposed");
    require(in[1].shape.rank() == 2 && (!attrs.ta || in[0].shape.rank() == 2), text,
            ": the transposed and right operands have two axes");
    const int64_t inner = in[0].shape[attrs.ta ? 0 : in[0].shape.rank() - 1];
    require(inner == in[1].shape[attrs.tb ? 1 : 0], text, ": inner dimensions differ");
    out = in[0].shape;
    if (attrs.ta) out = {in[0].shape[1], 0};
    out[out.rank() - 1] = in[1].shape[attrs.tb ? 0 : 1];
  }
  const TensorSpec result{out, attrs.dtype};
  require(!present(in, 2) || in[2] == result, text, " + ", in[2], ": the sum should be ", result);
  require(0 <= attrs.biased && attrs.biased <= out.back(), text, ": has no ", attrs.biased,
          " columns");
  const Shape row{attrs.biased ? attrs.biased : out.back()};
  const DType on_card = rounds_bias(in, attrs) ? attrs.dtype : DType::f32;
  require(!present(in, 3) || in[3] == TensorSpec{row} || in[3] == TensorSpec{row, on_card}, text,
          ": the bias should be f32[", row.back(), "], is ", in.size() > 3 ? in[3] : result);
  return {result};
}

// cuBLASLt takes a bias in the result's type alone.
bool rounds_bias(SpecSpan in, const MatmulAttrs& attrs) {
  return attrs.dtype != DType::f32 && in[0].dtype == attrs.dtype && in[1].dtype == attrs.dtype;
}
DType matmul_card_type(size_t operand, SpecSpan in, const Attrs& attributes) {
  auto& attrs = attributes.as<MatmulAttrs>();
  // A short bias is copied by the kernel, into a row as wide as the result's.
  return operand == 3 && rounds_bias(in, attrs) && !attrs.biased ? attrs.dtype : DType::f32;
}

namespace {

Prepared prepare(const Device& device, SpecSpan in, SpecSpan out, const Attrs& attributes) {
  auto& attrs = attributes.as<MatmulAttrs>();
  ProductShape p = matmul_product(in, attrs);
  const bool bf16_product = in[0].dtype == DType::bf16 && in[1].dtype == DType::bf16 &&
                            out[0].dtype != DType::f16 && Product::has_bf16();
  if (bf16_product) p.in = DType::bf16, p.out = out[0].dtype;
  require(bf16_product || in[1].dtype == DType::f32 || !in[1].layout, "matmul",
          to_string(in[1]) + ": can be read plain only");
  auto state = std::make_shared<ProductState>();
  state->product = std::make_unique<Product>(device, p);
  int64_t bytes = align_up(state->product->workspace());
  if (!bf16_product) state->copies = reserve_f32_copies(in, out, bytes);
  if (present(in, 3) && attrs.biased) {
    state->bias_row = p.n, state->bias_row_at = bytes;
    bytes += align_up(p.n * int64_t(sizeof(float)));
  } else if (present(in, 3)) {
    state->copies.bias = reserve_f32_copy(in[3], bytes);
  }
  Prepared prepared{.state = state, .workspace = bytes};
  if (!in[1].layout && in[1].shape.rank() == 2 && p.m <= kFewRows && state->copies.b == kNoCopy &&
      in[1].bytes() <= kLargestPacked && !attrs.b_columns) {
    prepared.preferred = {nullptr, Product::packed_b(device, p)};
    if (!prepared.preferred[1]) prepared.preferred.clear();
  }
  return prepared;
}

void gradient(GradientArgs& g) {
  auto& attrs = g.attrs<MatmulAttrs>();
  require_of(matmul_op, !attrs.a_columns && !attrs.b_columns && !attrs.biased,
             "rows are widened behind the gradients");
  const Val a = g.in(0), b = g.in(1), dy = g.dy();
  if (g.wants(0)) {
    const Val sum = g.take_sum(0);
    g.give(0, attrs.ta ? matmul(b, dy, attrs.tb, true, sum, g.type(0))
                       : matmul(dy, b, false, !attrs.tb, sum, g.type(0)));
  }
  if (g.wants(1)) {
    const Val sum = g.take_sum(1);
    g.give(1, attrs.tb ? matmul(dy, a, true, attrs.ta, sum, g.type(1))
                       : matmul(a, dy, !attrs.ta, false, sum, g.type(1)));
  }
  if (g.wants(2)) g.give(2, dy);
  if (g.node.in.size() > 3 && g.wants(3)) g.give(3, sum_rows(dy, g.take_sum(3)));
}

Cost cost(SpecSpan in, SpecSpan out, const Attrs& attributes) {
  return product_cost(matmul_product(in, attributes.as<MatmulAttrs>()), in, out);
}

// Those of a and c; or, where a is transposed, a sum over those of a and b.
Rows product_rows(const Attrs& attributes) {
  auto& s = attributes.as<MatmulAttrs>();
  if (!s.ta) return {.operands = 1 | 1 << 2};
  return s.tb ? Rows{} : Rows{.operands = 1 | 1 << 1, .sum = 2};
}

}  // namespace

std::vector<Example> matmul_examples() {
  const auto f32 = DType::f32, half = DType::bf16;
  return {
      {.operands = {example({5, 7}), example({7, 3}), absent_example()}, .attrs = MatmulAttrs{}},
      {.operands = {example({3, 9}), example({5, 9}), example({3, 5})},
       .attrs = MatmulAttrs{.tb = true}},
      {.operands = {example({2, 3, 7}), example({2, 3, 5}), example({7, 5})},
       .attrs = MatmulAttrs{.ta = true}},
      {.operands = {example({7, 6}), example({5, 7}), absent_example()},
       .attrs = MatmulAttrs{true, true}},
      {.operands = {example({2, 3, 7}), example({7, 5}), absent_example(), example({5})},
       .attrs = MatmulAttrs{}},
      {.operands = {example({1, 17}), example({17, 1}), example({1, 1}), example({1})},
       .attrs = MatmulAttrs{}},
      {.operands = {example({6, 18}, half), example({18, 10}, half), absent_example()},
       .attrs = MatmulAttrs{}},
      {.operands = {example({6, 18}, half), example({18, 10}, half), example({6, 10}, half)},
       .attrs = MatmulAttrs{.dtype = half}},
      {.operands = {example({6, 18}, half), example({18, 10}, half), absent_example(),
                    example({10})},
       .attrs = MatmulAttrs{.dtype = half}},
      {.operands = {example({6, 18}, half), example({18, 10}, half), absent_example(),
                    example({10}, half)},
       .attrs = MatmulAttrs{.dtype = half}},
      {.operands = {example({6, 5}, f32), example({5, 4}, half), absent_example(), example({4})},
       .attrs = MatmulAttrs{}},
      {.operands = {example({3, 5}, DType::f16), example({4, 5}, DType::f16), absent_example()},
       .attrs = MatmulAttrs{.tb = true, .dtype = DType::f16}},
      {.operands = {example({67, 129}), example({129, 193}), example({67, 193}), example({193})},
       .attrs = MatmulAttrs{}},
      // Rows wider than what they hold.
      {.operands = {constant(example({3, 40}, half)), constant(example({3, 24}, half)),
                    constant(example({37, 24}))},
       .attrs = MatmulAttrs{.ta = true, .a_columns = 37}},
      {.operands = {constant(example({2, 5, 16}, half)), constant(example({2, 5, 40}, half)),
                    absent_example()},
       .attrs = MatmulAttrs{.ta = true, .b_columns = 35}},
      {.operands = {constant(example({2, 5, 7})), constant(example({2, 5, 8})), absent_example()},
       .attrs = MatmulAttrs{.ta = true, .a_columns = 6, .b_columns = 3}},
      {.operands = {constant(example({2050, 72}, half)), constant(example({2050, 16}, half)),
                    absent_example()},
       .attrs = MatmulAttrs{.ta = true, .a_columns = 67}},
      {.operands = {constant(example({6, 24}, half)), constant(example({40, 24}, half)),
                    absent_example(), constant(example({37}))},
       .attrs = MatmulAttrs{.tb = true, .dtype = half, .biased = 37}},
      {.operands = {constant(example({6, 7})), constant(example({7, 8})), absent_example(),
                    constant(example({5}))},
       .attrs = MatmulAttrs{.biased = 5}},
  };
}

ProductShape matmul_product(SpecSpan in, const MatmulAttrs& attrs) {
  const int64_t a_rows = leading_numel(in[0].shape, in[0].shape.rank() - 1);
  const int64_t b_rows = leading_numel(in[1].shape, in[1].shape.rank() - 1);
  const int64_t a_columns = in[0].shape.back(), b_columns = in[1].shape.back();
  ProductShape p;
  p.m = attrs.ta ? a_columns : a_rows, p.k = attrs.ta ? a_rows : a_columns;
  p.n = attrs.tb ? b_rows : b_columns;
  if (attrs.a_columns) p.m = attrs.a_columns;
  if (attrs.b_columns) p.n = attrs.b_columns;
  p.a =
      attrs.ta ? std::array<int64_t, 3>{0, 1, a_columns} : std::array<int64_t, 3>{0, a_columns, 1};
  p.b =
      attrs.tb ? std::array<int64_t, 3>{0, 1, b_columns} : std::array<int64_t, 3>{0, b_columns, 1};
  p.c = {0, p.n, 1};
  p.accumulate = present(in, 2), p.bias = present(in, 3);
  p.b_layout = in[1].layout, p.b_transposed = attrs.tb;
  return p;
}

const OpDef matmul_op{
    .name = "matmul",
    .formula = "op(a)·op(b) + bias + c",
    .infer = [](SpecSpan in,
                const Attrs& attrs) { return infer_matmul(in, attrs.as<MatmulAttrs>()); },
    .gradient = gradient,
    .optional_from = 2,
    .shares = {{0, 2}},
    .rows = product_rows,
    .card_type = matmul_card_type,
    .cost = cost,
    .cpu = {.run = run_product, .prepare = prepare},
    .cuda = &matmul_cuda,
    .examples = matmul_examples(),
};

Val matmul(Val a, Val b, bool ta, bool tb, Val c, DType dtype) {
  return a.builder->emit1(matmul_op, {a, b, c}, MatmulAttrs{ta, tb, dtype});
}

Val matmul(Val a, Val b, bool ta, bool tb, Val c) {
  return matmul(a, b, ta, tb, c, a.spec().dtype);
}

Val linear(Val x, Val w, Val bias) {
  if (!bias) return matmul(x, w);
  return x.builder->emit1(matmul_op, {x, w, {}, bias}, MatmulAttrs{.dtype = x.spec().dtype});
}

}  // namespace pal
