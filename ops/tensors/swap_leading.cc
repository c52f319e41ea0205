// y[j,i,..] = x[i,j,..]; dx = dy with its axes exchanged again.
#include "ops/tensors/swap_leading.h"

#include "core/gradient.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

Shape swapped(Shape shape) {
  std::swap(shape[0], shape[1]);
  return shape;
}

void run(const KernelArgs& a) {
  const Shape& from = a.in_spec[0].shape;
  const int64_t rows = from[0], columns = from[1];
  if (a.in_spec[0].numel() == 0) return;
  const int64_t bytes = a.in_spec[0].bytes() / (rows * columns);
  for (int64_t i = 0; i < rows; ++i) {
    copy_rows(a.queue, a.output<std::byte>(0) + i * bytes, rows * bytes,
              a.input<std::byte>(0) + i * columns * bytes, bytes, columns, bytes);
  }
}

}  // namespace

const OpDef swap_leading_op{
    .name = "swap_leading",
    .formula = "x with its first two axes exchanged",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_operands(in, 1, 1);
      require(in[0].shape.rank() >= 2 && !in[0].layout && in[0].dtype != DType::bit,
              to_string(in[0]) + ": needs two axes, and a plain layout of whole bytes");
      return {{swapped(in[0].shape), in[0].dtype}};
    },
    .gradient = [](GradientArgs& g) { g.give(0, swap_leading(g.dy())); },
    .cpu = {.run = run},
    .cuda = &swap_leading_cuda,
    .examples = {{.operands = {example({3, 5, 7})}},
                 {.operands = {example({2, 3}, DType::bf16)}},
                 {.operands = {example({9, 31, 257})}}},
};

Val swap_leading(Val x) { return x.builder->emit1(swap_leading_op, {x}); }

}  // namespace pal
