// reverse: y[t, b] = x[t < len_b ? len_b - 1 - t : t, b];   dx = reverse(dy).
// swap_leading: y[j,i,..] = x[i,j,..];   dx = dy with its axes exchanged again.
#include "ops/tensors/row_order.h"

#include "core/gradient.h"

namespace pal {
namespace {

// Rows of what lies behind the first two axes.
template <class Source> void run_rows(const KernelArgs& a, Source source) {
  const Shape& shape = a.in_spec[0].shape;
  const int64_t bytes = trailing_numel(shape, 2) * bits(a.in_spec[0].dtype) / 8;
  copy_rows_from(a.queue, a.out[0], a.in[0], shape[0] * shape[1], bytes, source);
}

void run_reverse(const KernelArgs& a) {
  const int64_t steps = a.in_spec[0].shape[0], batch = a.in_spec[0].shape[1];
  const int32_t* lengths = a.input<int32_t>(1);
  for (int64_t b = 0; b < batch; ++b) {
    if (lengths[b] < 0 || lengths[b] > steps) {
      require(false, "reverse",
              "sequence " + std::to_string(b) + " has length " + std::to_string(lengths[b]) +
                  " of " + std::to_string(steps));
    }
  }
  run_rows(a, ReversedRow{lengths, steps, batch});
}

void run_swap(const KernelArgs& a) {
  run_rows(a, SwappedRow{a.in_spec[0].shape[0], a.in_spec[0].shape[1]});
}

Shape swapped(Shape shape) {
  std::swap(shape[0], shape[1]);
  return shape;
}

}  // namespace

const OpDef reverse_op{
    .name = "reverse",
    .formula = "x[len - 1 - t] for t < len, else x[t]",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_operands(in, 2, 2);
      require(in[0].shape.rank() >= 2 && bits(in[0].dtype) >= 8 && !in[0].layout, in[0],
              ": should be (T, B, ..)");
      require(in[1] == TensorSpec{{in[0].shape[1]}, DType::i32}, in[0], ", ", in[1],
              ": lengths should be i32[", in[0].shape[1], "]");
      return {{in[0].shape, in[0].dtype}};
    },
    .gradient =
        [](GradientArgs& g) {
          if (g.wants(0)) g.give(0, reverse(g.dy(), g.in(1)));
        },
    .zeros = keeps_zeros,
    .cpu = {.run = run_reverse},
    .cuda = &reverse_cuda,
    .examples = {{.operands = {example({5, 3, 7}), example({3}, DType::i32, 0, 5)}},
                 {.operands = {example({6, 4}, DType::bf16), example({4}, DType::i32, 0, 6)}},
                 {.operands = {example({33, 5, 257}), example({5}, DType::i32, 0, 33)}}},
};

const OpDef swap_leading_op{
    .name = "swap_leading",
    .formula = "x with its first two axes exchanged",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_operands(in, 1, 1);
      require(in[0].shape.rank() >= 2 && !in[0].layout && bits(in[0].dtype) >= 8, in[0],
              ": needs two axes, and a plain layout of whole bytes");
      return {{swapped(in[0].shape), in[0].dtype}};
    },
    .gradient = [](GradientArgs& g) { g.give(0, swap_leading(g.dy())); },
    .zeros = keeps_zeros,
    .cpu = {.run = run_swap},
    .cuda = &swap_leading_cuda,
    .examples = {{.operands = {example({3, 5, 7})}},
                 {.operands = {example({2, 3}, DType::bf16)}},
                 {.operands = {example({9, 31, 257})}}},
};

Val reverse(Val x, Val lengths) { return x.builder->emit1(reverse_op, {x, lengths}); }
Val swap_leading(Val x) { return x.builder->emit1(swap_leading_op, {x}); }

}  // namespace pal
