// cast: y = x as another type, of many x in one node; dx = dy as x's type.
// to_bits: y = [lo < x < hi].
#include "ops/tensors/casts.h"

#include <algorithm>

#include "core/gradient.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

// x's rows, and zeros.
void run_wider(const KernelArgs& a, size_t k) {
  const TensorSpec &x = a.in_spec[k], &y = a.out_spec[k];
  const int64_t rows = x.shape[0], columns = x.shape[1], wide = y.shape[1];
  const int64_t grain = std::max<int64_t>(1, kElementGrain / wide);
  parallel_chunks(a.queue, y.shape[0], grain, [&](int64_t begin, int64_t end) {
    alignas(64) float buffer[kTile];
    const auto copy = [&](int64_t row, int64_t from, int64_t to, bool zero) {
      for (int64_t j = from; j < to; j += kTile) {
        const int64_t n = std::min(kTile, to - j);
        if (zero) std::fill_n(buffer, n, 0.0f);
        store_tile(a.out[k], y.dtype, row * wide + j, n,
                   zero ? buffer : load_tile(a.in[k], x.dtype, row * columns + j, n, buffer));
      }
    };
    for (int64_t row = begin; row < end; ++row) {
      const int64_t there = row < rows ? columns : 0;
      copy(row, 0, there, false);
      copy(row, there, wide, true);
    }
  });
}

void run_cast(const KernelArgs& a) {
  for (size_t k = 0; k < a.in.size(); ++k) {
    if (!a.out[k]) continue;
    if (a.in_spec[k].shape == a.out_spec[k].shape) {
      convert_operand(a, k, k);
    } else {
      run_wider(a, k);
    }
  }
}

}  // namespace

const OpDef cast_op{
    .name = "cast",
    .formula = "x as another type",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      auto& [to, rows, columns] = attrs.as<CastAttrs>();
      Specs out;
      for (const TensorSpec& x : in) {
        require(is_float(x.dtype) && is_float(to), x, " to ", to, ": not floating-point types");
        TensorSpec y{x.shape, to};
        if (rows || columns) {
          require(x.shape.rank() == 2, x, ": only a matrix gets more rows or columns");
          y.shape = {std::max(rows, x.shape[0]), std::max(columns, x.shape[1])};
        }
        out.push_back(y);
      }
      return out;
    },
    .gradient =
        [](GradientArgs& g) {
          require_of(cast_op, g.in(0).shape() == g.dy().shape(),
                     "rows are widened behind the gradients");
          g.give(0, cast(g.dy(), g.in(0).spec().dtype));
        },
    .arity = 1,
    .zeros = gathers_zeros,
    .rows =
        [](const Attrs& attrs) {
          return attrs.as<CastAttrs>().rows ? Rows{} : rows_of_each(attrs);
        },
    .cpu = {.run = run_cast},
    .cuda = &cast_cuda,
    .examples = {{.operands = {constant(example({3, 7}))}, .attrs = CastAttrs{DType::bf16}},
                 {.operands = {example({3, 7}, DType::f16)}, .attrs = CastAttrs{DType::f32}},
                 {.operands = {constant(example({33, 1031}))}, .attrs = CastAttrs{DType::f16}},
                 {.operands = {constant(example({5, 9}))}, .attrs = CastAttrs{DType::bf16, 8, 0}},
                 {.operands = {constant(example({5, 1031}))},
                  .attrs = CastAttrs{DType::bf16, 0, 1032}},
                 {.operands = {constant(example({5, 6}, DType::bf16))},
                  .attrs = CastAttrs{DType::bf16, 7, 8}}},
};

const OpDef to_bits_op{
    .name = "to_bits",
    .formula = "[lo < x < hi], a bit each",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_operands(in, 1, 1);
      require(is_float(in[0].dtype) || in[0].dtype == DType::bit, in[0], ": not floating-point");
      return {{in[0].shape, DType::bit}};
    },
    .reads = [](int, const Attrs& attrs) -> Reads {
      auto& interval = attrs.as<BitsAttrs>();
      return reads_predicate(interval.lo, interval.hi);
    },
    .rows = rows_of_each,
    .cpu = {.run = map_operands<1, Inside>},
    .cuda = &to_bits_cuda,
    .examples = {{.operands = {constant(example({3, 7}))}, .attrs = BitsAttrs{}},
                 {.operands = {example({5, 13}, DType::bf16)}, .attrs = BitsAttrs{-1, 1}},
                 {.operands = {constant(example({33, 1031}))}, .attrs = BitsAttrs{0, 1}},
                 {.operands = {constant(example({4, 24}))}, .attrs = BitsAttrs{0, 1}}},
};

Val cast(Val x, DType to) {
  return x.spec().dtype == to ? x : x.builder->emit1(cast_op, {x}, CastAttrs{to});
}
Val to_bits(Val x, float lo, float hi) {
  return x.builder->emit1(to_bits_op, {x}, BitsAttrs{lo, hi});
}

}  // namespace pal
