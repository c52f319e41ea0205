// y_b = op(a_b) op(b_b) + c_b.   With dy_b:  da_b = dy_b op(b_b)^T, db_b = op(a_b)^T dy_b,
// transposed where op transposes.
#include "ops/products/batched_matmul.h"

#include "core/gradient.h"
#include "ops/products/product_state.h"

namespace pal {
namespace {

// An operand's extents and strides as (batch, row, column) of the matrix that is multiplied.
struct Matrices {
  int64_t batch, rows, columns;
  std::array<int64_t, 3> stride;
};

Matrices matrices(const Shape& shape, int batch_axis, bool transposed) {
  const int64_t last = shape[2], along[2] = {shape[1] * last, last};
  const int row_axis = 1 - batch_axis;
  Matrices m{shape[batch_axis], shape[row_axis], last, {along[batch_axis], along[row_axis], 1}};
  if (transposed) std::swap(m.rows, m.columns), std::swap(m.stride[1], m.stride[2]);
  return m;
}

Shape result_shape(int64_t batch, int64_t m, int64_t n, int batch_axis) {
  return batch_axis ? Shape{m, batch, n} : Shape{batch, m, n};
}

Specs infer(SpecSpan in, const Attrs& attributes) {
  auto& attrs = attributes.as<BatchedMatmulAttrs>();
  require(in.size() == 3, "takes a, b and c, which may be absent");
  auto text = [&] { return join_parts(in[0], "·", in[1]); };
  auto is_axis = [](int axis) { return axis == 0 || axis == 1; };
  require(is_axis(attrs.a_batch) && is_axis(attrs.b_batch) && is_axis(attrs.out_batch), text,
          ": the batch is axis 0 or 1");
  for (int i = 0; i < 2; ++i) {
    require(in[size_t(i)].shape.rank() == 3 && is_float(in[size_t(i)].dtype) &&
                is_float(attrs.dtype) && !in[size_t(i)].layout && in[size_t(i)].numel() > 0,
            text, ": needs plain floats with three axes");
  }
  const Matrices a = matrices(in[0].shape, attrs.a_batch, attrs.ta);
  const Matrices b = matrices(in[1].shape, attrs.b_batch, attrs.tb);
  require(a.batch == b.batch, text, ": batches differ");
  require(a.columns == b.rows, text, ": inner dimensions differ");
  const TensorSpec out{result_shape(a.batch, a.rows, b.columns, attrs.out_batch), attrs.dtype};
  require(!present(in, 2) || in[2] == out, text, " + ", in[2], ": the sum should be ", out);
  return {out};
}

Prepared prepare(const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  auto product =
      std::make_unique<Product>(device, batched_matmul_product(in, attrs.as<BatchedMatmulAttrs>()));
  int64_t bytes = product->workspace();
  ProductState state{std::move(product), reserve_f32_copies(in, out, bytes)};
  return {.state = std::make_shared<ProductState>(std::move(state)), .workspace = bytes};
}

void gradient(GradientArgs& g) {
  const auto [ta, tb, a_batch, b_batch, out_batch, dtype] = g.attrs<BatchedMatmulAttrs>();
  const Val a = g.in(0), b = g.in(1), dy = g.dy();
  auto give = [&](int k, Val x, Val y, BatchedMatmulAttrs attrs) {
    g.give(k, batched_matmul(x, y, attrs, g.take_sum(k), g.type(k)));
  };
  if (g.wants(0)) {
    if (ta) {
      give(0, b, dy, {tb, true, b_batch, out_batch, a_batch});
    } else {
      give(0, dy, b, {false, !tb, out_batch, b_batch, a_batch});
    }
  }
  if (g.wants(1)) {
    if (tb) {
      give(1, dy, a, {true, ta, out_batch, a_batch, b_batch});
    } else {
      give(1, a, dy, {!ta, false, a_batch, out_batch, b_batch});
    }
  }
  if (g.wants(2)) g.give(2, dy);
}

Cost cost(SpecSpan in, SpecSpan out, const Attrs& attrs) {
  return product_cost(batched_matmul_product(in, attrs.as<BatchedMatmulAttrs>()), in, out);
}

using A = BatchedMatmulAttrs;  // of the examples

}  // namespace

ProductShape batched_matmul_product(SpecSpan in, const BatchedMatmulAttrs& attrs) {
  const Matrices a = matrices(in[0].shape, attrs.a_batch, attrs.ta);
  const Matrices b = matrices(in[1].shape, attrs.b_batch, attrs.tb);
  const Matrices c =
      matrices(result_shape(a.batch, a.rows, b.columns, attrs.out_batch), attrs.out_batch, false);
  return {.batch = a.batch,
          .m = a.rows,
          .n = b.columns,
          .k = a.columns,
          .a = a.stride,
          .b = b.stride,
          .c = c.stride,
          .accumulate = present(in, 2)};
}

const OpDef batched_matmul_op{
    .name = "batched_matmul",
    .formula = "op(a_b)·op(b_b) + c_b",
    .infer = infer,
    .gradient = gradient,
    .optional_from = 2,
    .shares = {{0, 2}},
    .cost = cost,
    .cpu = {.run = run_product, .prepare = prepare},
    .cuda = &batched_matmul_cuda,
    .examples =
        {{.operands = {example({3, 4, 5}), example({3, 5, 6}), absent_example()}, .attrs = A{}},
         {.operands = {example({3, 5, 4}), example({3, 6, 5}), example({3, 4, 6})},
          .attrs = A{.ta = true, .tb = true}},
         {.operands = {example({4, 3, 5}), example({6, 3, 5}), absent_example()},
          .attrs = A{.tb = true, .a_batch = 1, .b_batch = 1}},
         {.operands = {example({3, 4, 5}), example({5, 3, 6}), example({4, 3, 6})},
          .attrs = A{.b_batch = 1, .out_batch = 1}},
         {.operands = {example({5, 3, 1}), example({5, 3, 6}), absent_example()},
          .attrs = A{.ta = true, .a_batch = 1, .b_batch = 1, .out_batch = 1}},
         {.operands = {example({1, 4, 5}), example({1, 5, 6}), absent_example()}, .attrs = A{}},
         {.operands = {example({17, 33, 40}), example({40, 17, 37}), example({33, 17, 37})},
          .attrs = A{.b_batch = 1, .out_batch = 1}},
         {.operands = {half_example({3, 4, 8}), half_example({3, 8, 6}), absent_example()},
          .attrs = A{}},
         {.operands = {half_example({3, 4, 5}), half_example({5, 3, 6}), half_example({4, 3, 6})},
          .attrs = A{.b_batch = 1, .out_batch = 1, .dtype = DType::bf16}},
         {.operands = {half_example({3, 5, 4}, DType::f16), half_example({3, 6, 5}, DType::f16),
                       absent_example()},
          .attrs = A{.ta = true, .tb = true, .dtype = DType::f16}},
         {.operands = {half_example({3, 4, 5}), example({3, 5, 6}), half_example({3, 4, 6})},
          .attrs = A{.dtype = DType::bf16}}},
};

Val batched_matmul(Val a, Val b, BatchedMatmulAttrs attrs, Val c, std::optional<DType> dtype) {
  attrs.dtype = dtype.value_or(a.spec().dtype);
  return a.builder->emit1(batched_matmul_op, {a, b, c}, attrs);
}

}  // namespace pal
