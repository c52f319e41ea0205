// square_tiles: sum_{i in tile} x_i^2.   sum_tiles: sum_t x_t, in double, chunk by chunk.
#include "ops/sums/square_tiles.h"

#include "core/builder.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/row_tiles.h"
#include "ops/kernels/rows.h"

namespace pal {
namespace {

constexpr int64_t kTilesPerChunk = kElementGrain / kTile;

void run_square_tiles(const KernelArgs& a) {
  const DType type = a.in_spec[0].dtype;
  float* const out = a.output(0);
  parallel_chunks(a.queue, a.in_spec[0].numel(), kElementGrain, [&](int64_t begin, int64_t end) {
    alignas(64) float buffer[kTile];
    each_tile(a.in[0], type, begin, end - begin, buffer, [&](const float* x, int64_t i, int64_t n) {
      out[(begin + i) / kTile] = row_sum(n, [&](int64_t e) { return x[e] * x[e]; });
    });
  });
}

void run_sum_tiles(const KernelArgs& a) {
  const float* const tiles = a.input(0);
  const int64_t count = a.in_spec[0].numel();
  const int64_t chunks = (count + kTilesPerChunk - 1) / kTilesPerChunk;
  const double total = tree_sum(chunks, [&](int64_t c) {
    double sum = 0;
    for (int64_t t = c * kTilesPerChunk; t < std::min(count, (c + 1) * kTilesPerChunk); ++t) {
      sum += double(tiles[t]);
    }
    return sum;
  });
  *a.output(0) = float(total);
}

}  // namespace

const OpDef square_tiles_op{
    .name = "square_tiles",
    .formula = "sum_i x_i^2 of each tile",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_operands(in, 1, 1);
      require(is_float(in[0].dtype) && !in[0].layout && present(in[0]), in[0], ": want floats");
      return {{Shape{(in[0].numel() + kTile - 1) / kTile}}};
    },
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
      return {2.0 * double(in[0].numel()), double(in[0].bytes() + out[0].bytes())};
    },
    .cpu = {.run = run_square_tiles},
    .cuda = &square_tiles_cuda,
    .examples = {{.operands = {constant(example({3, 7}))}},
                 {.operands = {constant(example({5, 13}, DType::bf16))}},
                 {.operands = {constant(example({33, 1031}))}}},
};

const OpDef sum_tiles_op{
    .name = "sum_tiles",
    .formula = "sum_t x_t",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_operands(in, 1, 1);
      require(in[0].dtype == DType::f32 && in[0].shape.rank() == 1, in[0], ": want f32[tiles]");
      return {{Shape{1}}};
    },
    .cpu = {.run = run_sum_tiles},
    .cuda = &sum_tiles_cuda,
    .examples = {{.operands = {constant(example({5}))}}, {.operands = {constant(example({1031}))}}},
};

Val square_tiles(Val x) { return x.builder->emit1(square_tiles_op, {x}); }
Val sum_tiles(Val tiles) { return tiles.builder->emit1(sum_tiles_op, {tiles}); }

}  // namespace pal
