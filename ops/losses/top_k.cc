// top_k: the k largest of a row, best first. One pass over the row; what is kept is kept in order,
// and of a row in random order only about k log(V / k) elements are.
#include "ops/losses/top_k.h"

#include "core/builder.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

// The first k of n numbers; rising indices, so that an equal one goes behind. Either list may be
// absent.
void top_of_row(const float* x, int64_t n, int64_t k, float* values, int32_t* indices) {
  int64_t kept = 0;
  const auto comes_before = [&](int64_t i, int64_t at) {
    const float other = values ? values[at] : x[indices[at]];
    return ranks_before(x[i], 1, other, 0);
  };
  for (int64_t i = 0; i < n; ++i) {
    if (kept == k && !comes_before(i, k - 1)) continue;
    int64_t at = kept < k ? kept++ : k - 1;
    for (; at > 0 && comes_before(i, at - 1); --at) {
      if (values) values[at] = values[at - 1];
      if (indices) indices[at] = indices[at - 1];
    }
    if (values) values[at] = x[i];
    if (indices) indices[at] = int32_t(i);
  }
}

void run_top_k(const KernelArgs& a) {
  const int64_t width = a.in_spec[0].shape.back(), rows = row_count(a.in_spec[0].shape);
  const int64_t k = a.attrs.as<TopKAttrs>().k;
  float* const values = a.output(0);
  int32_t* const indices = a.output<int32_t>(1);
  parallel_chunks(a.queue, rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      top_of_row(a.input(0) + r * width, width, k, values ? values + r * k : nullptr,
                 indices ? indices + r * k : nullptr);
    }
  });
}

Specs infer_top_k(SpecSpan in, const Attrs& attrs) {
  require_operands(in, 1, 1);
  require(in[0].dtype == DType::f32 && in[0].shape.rank() > 0 && !in[0].layout, in[0],
          ": takes plain f32 (.., V)");
  const int64_t k = attrs.as<TopKAttrs>().k, width = in[0].shape.back();
  require(k >= 1 && k <= width, in[0], ": has not ", k, " columns");
  Shape shape = in[0].shape.without(in[0].shape.rank() - 1);
  shape.append(k);
  return {{shape}, {shape, DType::i32}};
}

}  // namespace

const OpDef top_k_op{
    .name = "top_k",
    .formula = "the k largest of the last axis, best first, and their indices",
    .infer = infer_top_k,
    .cpu = {.run = run_top_k},
    .cuda = &top_k_cuda,
    .examples = {{.operands = {constant(example({3, 7}))}, .attrs = TopKAttrs{7}},
                 {.operands = {constant(example({2, 3, 5}))}, .attrs = TopKAttrs{2}},
                 {.operands = {constant(example({35, 1030}))}, .attrs = TopKAttrs{13}}},
};

TopK top_k(Val x, int64_t k) {
  const std::vector<Val> out = x.builder->emit(top_k_op, {x}, TopKAttrs{k});
  return {out[0], out[1]};
}

}  // namespace pal
