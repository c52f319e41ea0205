// y[t, b] = x[t < len_b ? len_b - 1 - t : t, b].   dx = reverse(dy).
#include "ops/tensors/reverse.h"

#include <cstring>

#include "core/gradient.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

void run(const KernelArgs& a) {
  const Shape& shape = a.in_spec[0].shape;
  const int64_t steps = shape[0], batch = shape[1];
  const int64_t bytes = trailing_numel(shape, 2) * bits(a.in_spec[0].dtype) / 8;
  const int32_t* lengths = a.input<int32_t>(1);
  for (int64_t b = 0; b < batch; ++b) {
    if (lengths[b] < 0 || lengths[b] > steps) {
      require(false, "reverse",
              "sequence " + std::to_string(b) + " has length " + std::to_string(lengths[b]) +
                  " of " + std::to_string(steps));
    }
  }
  const std::byte* x = a.input<std::byte>(0);
  std::byte* y = a.output<std::byte>(0);
  const int64_t grain = 4 * kElementGrain / std::max<int64_t>(bytes, 1) + 1;
  parallel_chunks(a.queue, steps * batch, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t t = row / batch, b = row % batch;
      const int64_t from = t < lengths[b] ? lengths[b] - 1 - t : t;
      std::memcpy(y + row * bytes, x + (from * batch + b) * bytes, size_t(bytes));
    }
  });
}

}  // namespace

const OpDef reverse_op{
    .name = "reverse",
    .formula = "x[len - 1 - t] for t < len, else x[t]",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_operands(in, 2, 2);
      require(in[0].shape.rank() >= 2 && in[0].dtype != DType::bit && !in[0].layout,
              to_string(in[0]) + ": should be (T, B, ..)");
      require(in[1] == TensorSpec{{in[0].shape[1]}, DType::i32},
              to_string(in[0]) + ", " + to_string(in[1]) + ": lengths should be i32[" +
                  std::to_string(in[0].shape[1]) + "]");
      return {{in[0].shape, in[0].dtype}};
    },
    .gradient =
        [](GradientArgs& g) {
          if (g.wants(0)) g.give(0, reverse(g.dy(), g.in(1)));
        },
    .cpu = {.run = run},
    .cuda = &reverse_cuda,
    .examples = {{.operands = {example({5, 3, 7}), example({3}, DType::i32, 0, 5)}},
                 {.operands = {example({6, 4}, DType::bf16), example({4}, DType::i32, 0, 6)}},
                 {.operands = {example({33, 5, 257}), example({5}, DType::i32, 0, 33)}}},
};

Val reverse(Val x, Val lengths) { return x.builder->emit1(reverse_op, {x, lengths}); }

}  // namespace pal
