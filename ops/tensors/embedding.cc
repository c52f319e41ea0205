// y_n = w[id_n].   dw[v] = sum + the dy_n with id_n = v and v != padding, n ascending.
#include "ops/tensors/embedding.h"

#include "core/error.h"
#include "core/gradient.h"
#include "ops/kernels/float_types.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

constexpr int64_t kColumns = 64;  // that one worker scatters: all rows of them, in order

// Before the workers start: they must not throw.
void require_ids(const char* op, const int32_t* ids, int64_t count, int64_t rows) {
  int64_t bad = 0;
  for (int64_t n = 0; n < count; ++n) bad += uint32_t(ids[n]) >= uint32_t(rows);
  if (bad == 0) return;
  int64_t n = 0;
  while (uint32_t(ids[n]) < uint32_t(rows)) ++n;
  throw ProgramError("[" + std::string(op) + "] id " + std::to_string(ids[n]) + " at position " +
                     std::to_string(n) + " is outside a table of " + std::to_string(rows) +
                     " rows: does the data's vocabulary fit the model's?");
}

void run(const KernelArgs& a) {
  const int32_t* ids = a.input<int32_t>(1);
  const int64_t count = a.in_spec[1].numel();
  require_ids("embedding", ids, count, a.in_spec[0].shape[0]);
  const int64_t bytes = a.in_spec[0].shape[1] * bits(a.in_spec[0].dtype) / 8;
  copy_rows_from(a.queue, a.out[0], a.in[0], count, bytes, [ids](int64_t r) { return ids[r]; });
}

template <class T, class D> void scatter(const KernelArgs& a) {
  auto& attrs = a.attrs.as<EmbeddingGradAttrs>();
  const D* dy = a.input<D>(0);
  const int32_t* ids = a.input<int32_t>(1);
  T* dw = a.output<T>(0);
  const int64_t count = a.in_spec[1].numel(), width = a.out_spec[0].shape[1];
  parallel_chunks(a.queue, width, kColumns, [&](int64_t begin, int64_t end) {
    for (int64_t n = 0; n < count; ++n) {
      if (ids[n] == attrs.padding) continue;
      T* row = dw + ids[n] * width;
      const D* x = dy + n * width;
#pragma omp simd
      for (int64_t j = begin; j < end; ++j) store(row, j, load(row, j) + load(x, j));
    }
  });
}

void run_grad(const KernelArgs& a) {
  require_ids("embedding_grad", a.input<int32_t>(1), a.in_spec[1].numel(), a.out_spec[0].shape[0]);
  if (a.input(2))
    copy_bytes(a.queue, a.out[0], a.in[2], a.out_spec[0].bytes());
  else
    zero_bytes(a.queue, a.out[0], a.out_spec[0].bytes());
  by_float_type(a.out_spec[0].dtype, [&]<class T>(T) {
    by_float_type(a.in_spec[0].dtype, [&]<class D>(D) { scatter<T, D>(a); });
  });
}

Specs infer(SpecSpan in, const Attrs&) {
  require_operands(in, 2, 2);
  require(is_float(in[0].dtype) && in[0].shape.rank() == 2 && !in[0].layout, in[0],
          ": the table should be (V, E)");
  require(in[1].dtype == DType::i32, in[1], ": ids should be i32");
  Shape shape = in[1].shape;
  shape.append(in[0].shape[1]);
  return {{shape, in[0].dtype}};
}

Specs infer_grad(SpecSpan in, const Attrs& attrs) {
  require_operands(in, 2, 3);
  require(is_float(in[0].dtype) && in[1].dtype == DType::i32, "takes dy and i32 ids");
  Shape dy = in[1].shape;
  require(in[0].shape.rank() > 0, in[0], ": dy should be (.., E)");
  dy.append(in[0].shape.back());
  require(dy == in[0].shape, in[0], ", ", in[1], ": one row of dy for every id");
  TensorSpec out{{attrs.as<EmbeddingGradAttrs>().rows, dy.back()}, DType::f32};
  if (in.size() < 3 || in[2].shape.rank() == 0) return {out};
  require(in[2].shape == out.shape && is_float(in[2].dtype), in[2], ": the sum so far should be ",
          out);
  return {{out.shape, in[2].dtype}};
}

ExampleOperand ids_example(Shape shape, float last) { return example(shape, DType::i32, 0, last); }

}  // namespace

const OpDef embedding_op{
    .name = "embedding",
    .formula = "w[ids]",
    .infer = infer,
    .gradient =
        [](GradientArgs& g) {
          if (!g.wants(0)) return;
          g.give(0, embedding_grad(g.dy(), g.in(1), g.take_sum(0), g.in(0).shape()[0],
                                   g.attrs<EmbeddingAttrs>().padding));
        },
    .cost = [](SpecSpan in, SpecSpan out,
               const Attrs&) -> Cost {  // of the table only the rows that are read
      return {0, double(in[1].bytes() + 2 * out[0].bytes())};
    },
    .cpu = {.run = run},
    .cuda = &embedding_cuda,
    .examples = {{.operands = {example({6, 7}), ids_example({3, 2}, 5)}, .attrs = EmbeddingAttrs{}},
                 {.operands = {example({6, 7}, DType::bf16), ids_example({5}, 5)},
                  .attrs = EmbeddingAttrs{}},
                 {.operands = {example({40, 257}), ids_example({33, 9}, 39)},
                  .attrs = EmbeddingAttrs{}}},
};

const OpDef embedding_grad_op{
    .name = "embedding_grad",
    .formula = "sum + rows of dy added up by id",
    .infer = infer_grad,
    .optional_from = 2,
    .shares = {{0, 2}},
    .cost = [](SpecSpan in, SpecSpan out,
               const Attrs&) -> Cost {  // without a sum the table is zeroed first
      const bool fresh = in.size() < 3 || in[2].shape.rank() == 0;
      return {double(in[0].numel()),
              double(in[1].bytes() + 3 * in[0].bytes()) + (fresh ? double(out[0].bytes()) : 0.0)};
    },
    .cpu = {.run = run_grad},
    .cuda = &embedding_grad_cuda,
    .examples = {{.operands = {example({3, 2, 7}), ids_example({3, 2}, 5), absent_example()},
                  .attrs = EmbeddingGradAttrs{6}},
                 {.operands = {example({3, 2, 7}), ids_example({3, 2}, 5), example({6, 7})},
                  .attrs = EmbeddingGradAttrs{6, 3}},
                 {.operands = {example({5, 7}, DType::bf16), ids_example({5}, 5), example({6, 7})},
                  .attrs = EmbeddingGradAttrs{6}},
                 {.operands = {example({33, 9, 257}), ids_example({33, 9}, 39), example({40, 257})},
                  .attrs = EmbeddingGradAttrs{40, 0}}},
};

Val embedding(Val weights, Val ids, int64_t padding) {
  return weights.builder->emit1(embedding_op, {weights, ids}, EmbeddingAttrs{padding});
}
Val embedding_grad(Val dy, Val ids, Val sum, int64_t rows, int64_t padding) {
  return dy.builder->emit1(embedding_grad_op, {dy, ids, sum}, EmbeddingGradAttrs{rows, padding});
}

}  // namespace pal
