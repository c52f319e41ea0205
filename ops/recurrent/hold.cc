// hold: y[b] = x[b] where t < lengths[b], else prev[b]. A step of a recurrent layer past a
// sequence's end keeps the state. Its gradient parts dy by rows; what prev gets is added to its
// sum.
#include "ops/recurrent/hold.h"

#include "core/gradient.h"
#include "ops/kernels/operands.h"
#include "ops/recurrent/cells.h"

namespace pal {
namespace {

void check_lengths(const TensorSpec& x, const TensorSpec& lengths) {
  require(x.shape.rank() >= 1 && is_float(x.dtype), x, ": want floats (B, ..)");
  require(lengths.dtype == DType::i32 && lengths.shape == Shape{x.shape[0]}, lengths,
          ": want lengths i32[", x.shape[0], "]");
}

// (B, ..) as rows of one width.
Shape as_rows(const TensorSpec& spec) { return {spec.shape[0], trailing_numel(spec.shape, 1)}; }

void run_hold(const KernelArgs& a) {
  const DType type = a.in_spec[0].dtype;
  auto one = [&](const CellTile& tile, float(&buffer)[1][kTile]) {
    const void* from = a.in[tile.ended ? 1 : 0];
    store_tile(a.out[0], type, tile.at(), tile.n,
               load_tile(from, type, tile.at(), tile.n, buffer[0]));
  };
  each_cell_tile<1>(a.queue, as_rows(a.in_spec[0]), a.input<int32_t>(2), a.attrs.as<HoldAttrs>().t,
                    one, kElementGrain);
}

// dy, lengths | sum -> dx, dprev
void run_hold_grad(const KernelArgs& a) {
  const DType type = a.in_spec[0].dtype;
  const void* sum_in = input_if_present(a, 2);
  auto one = [&](const CellTile& tile, float(&buffer)[4][kTile]) {
    const int64_t at = tile.at(), n = tile.n;
    const float* dy = load_tile(a.in[0], type, at, n, buffer[0]);
    const float* sum = sum_in ? load_tile(sum_in, type, at, n, buffer[1]) : nullptr;
    float *dx = buffer[2], *dprev = buffer[3];  // apart, as outputs may lie over dy or sum
    for (int64_t e = 0; e < n; ++e) {
      dx[e] = tile.ended ? 0 : dy[e];
      dprev[e] = tile.ended ? dy[e] : 0;
    }
    for (int64_t e = 0; sum && e < n; ++e) dprev[e] = sum[e] + dprev[e];
    if (a.out[0]) store_tile(a.out[0], type, at, n, dx);
    if (a.out[1]) store_tile(a.out[1], type, at, n, dprev);
  };
  each_cell_tile<4>(a.queue, as_rows(a.in_spec[0]), a.input<int32_t>(1), a.attrs.as<HoldAttrs>().t,
                    one, kElementGrain);
}

}  // namespace

const OpDef hold_op{
    .name = "hold",
    .formula = "x if t < length else prev, by rows",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      require(in.size() == 3, "takes x, prev, lengths");
      (void)attrs.as<HoldAttrs>();
      check_lengths(in[0], in[2]);
      return infer_like_first(in.first(2), 2);
    },
    .gradient =
        [](GradientArgs& g) {
          g.give_all(g.builder.emit(hold_grad_op, {g.dy(), g.in(2), g.take_sum(1)}, g.node.attrs));
        },
    .shares = {{0, 0}, {0, 1}},
    .cpu = {.run = run_hold},
    .cuda = &hold_cuda,
    .examples = {{.operands = {example({4, 7}), example({4, 7}), example({4}, DType::i32, 0, 4)},
                  .attrs = HoldAttrs{2}},
                 {.operands = {example({5, 13}, DType::bf16), example({5, 13}, DType::bf16),
                               example({5}, DType::i32, 0, 4)},
                  .attrs = HoldAttrs{1}},
                 {.operands = {example({40, 2, 515}), example({40, 2, 515}),
                               example({40}, DType::i32, 0, 4)},
                  .attrs = HoldAttrs{2}}},
};

const OpDef hold_grad_op{
    .name = "hold_grad",
    .formula = "dx = dy where t < length, dprev = sum + dy elsewhere",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      require(in.size() == 3, "takes dy, lengths, sum");
      (void)attrs.as<HoldAttrs>();
      check_lengths(in[0], in[1]);
      require(!present(in[2]) || in[2] == in[0], in[0], ", ", in[2], ": the sum is not like dy");
      return {plain(in[0]), plain(in[0])};
    },
    .optional_from = 2,
    .shares = {{0, 0}, {1, 2}, {1, 0}},
    .cpu = {.run = run_hold_grad},
    .cuda = &hold_grad_cuda,
    .examples = {{.operands = {example({4, 7}), example({4}, DType::i32, 0, 4), absent_example()},
                  .attrs = HoldAttrs{2}},
                 {.operands = {example({5, 13}, DType::f16), example({5}, DType::i32, 0, 4),
                               example({5, 13}, DType::f16)},
                  .attrs = HoldAttrs{1}},
                 {.operands = {example({40, 1030}), example({40}, DType::i32, 0, 4),
                               example({40, 1030})},
                  .attrs = HoldAttrs{2}}},
};

Val hold(Val x, Val prev, Val lengths, int64_t t) {
  return x.builder->emit1(hold_op, {x, prev, lengths}, HoldAttrs{t});
}

}  // namespace pal
