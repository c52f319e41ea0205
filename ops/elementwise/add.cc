// y = a + b; sum_of: y = (x0 + x1) + x2 + .., one after the other. Gradient: dy to all.
#include "ops/elementwise/add.h"

#include <algorithm>

#include "core/gradient.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

void run_sum_of(const KernelArgs& a) {
  const DType type = a.out_spec[0].dtype;
  parallel_chunks(a.queue, a.out_spec[0].numel(), kElementGrain, [&](int64_t begin, int64_t end) {
    alignas(64) float sum[kTile], buffer[kTile];
    for (int64_t i = begin; i < end; i += kTile) {
      const int64_t n = std::min(kTile, end - i);
      const float* first = load_tile(a.in[0], type, i, n, buffer);
      std::copy_n(first, n, sum);
      for (size_t k = 1; k < a.in.size(); ++k) {
        const float* x = load_tile(a.in[k], type, i, n, buffer);
#pragma omp simd
        for (int64_t e = 0; e < n; ++e) sum[e] += x[e];
      }
      store_tile(a.out[0], type, i, n, sum);
    }
  });
}

std::vector<Example> sum_of_examples() {
  std::vector<Example> out = alike_examples<3>(DType::bf16);
  const std::vector<Example> many = alike_examples<size_t(kMostTerms)>(DType::f16);
  out.push_back(many[0]), out.push_back(many[1]);
  return out;
}

}  // namespace

const OpDef add_op = map_op<2, Add>({
    .name = "add",
    .formula = "a + b",
    .gradient =
        [](GradientArgs& g) {
          g.give(0, g.dy());
          g.give(1, g.dy());
        },
    .cuda = &add_cuda,
    .examples = alike_examples<2>(DType::bf16),
});

const OpDef sum_of_op{
    .name = "sum_of",
    .formula = "x0 + x1 + .., one after the other",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_operands(in, 1, size_t(kMostTerms));
      return infer_like_first(in, in.size());
    },
    .gradient =
        [](GradientArgs& g) {
          for (size_t k = 0; k < g.node.in.size(); ++k) g.give(k, g.dy());
        },
    .shares = {{0, 0}},
    .rows = rows_of_each,
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
      return streaming_cost(double(in.size() - 1) * double(out[0].numel()), in, out);
    },
    .cpu = {.run = run_sum_of},
    .cuda = &sum_of_cuda,
    .examples = sum_of_examples(),
};

Val add(Val a, Val b) { return a.builder->emit1(add_op, {a, b}); }

Val sum_of(const std::vector<Val>& x) {
  Val sum = x[0];
  for (size_t k = 1; k < x.size();) {
    std::vector<Val> terms{sum};
    while (k < x.size() && terms.size() < size_t(kMostTerms)) terms.push_back(x[k++]);
    sum = sum.builder->emit1(sum_of_op, terms);
  }
  return sum;
}

}  // namespace pal
