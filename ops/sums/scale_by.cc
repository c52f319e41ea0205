// scale_by: y = factor x, dx = factor dy, dfactor = sum + dy . x      inner_product: sum + a . b
#include "ops/sums/scale_by.h"

#include "core/gradient.h"
#include "ops/kernels/operands.h"
#include "ops/sums/sum_products.h"

namespace pal {

const OpDef scale_by_op{
    .name = "scale_by",
    .formula = "factor x, the factor a value",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() == 2 && one_number(in[1]), "takes x and a factor f32[1]");
      return infer_like_first(in.first(1), 1);
    },
    .gradient =
        [](GradientArgs& g) {
          if (g.wants(0)) g.give(0, scale_by(g.dy(), g.in(1)));
          if (g.wants(1)) g.give(1, inner_product(g.dy(), g.in(0), g.take_sum(1)));
        },
    .shares = {{0, 0}},
    .cpu = {.run =
                [](const KernelArgs& a) {
                  const float factor = *a.input(1);
                  map_elements<1>(a, [factor](float x) { return factor * x; });
                }},
    .cuda = &scale_by_cuda,
    .examples = {{.operands = {example({3, 7}), example({1})}},
                 {.operands = {example({5, 13}, DType::bf16), example({1})}},
                 {.operands = {example({33, 1031}), example({1})}}},
};

const OpDef inner_product_op{
    .name = "inner_product",
    .formula = "sum + sum_i a[i] b[i]",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() == 3, "takes a, b, sum");
      infer_like_first(in.first(2), 2);
      require(!present(in[2]) || one_number(in[2]), in[2], ": the sum is not f32[1]");
      return {{Shape{1}}};
    },
    .gradient =
        [](GradientArgs& g) {
          if (g.wants(0)) g.give(0, scale_by(g.in(1), g.dy()));
          if (g.wants(1)) g.give(1, scale_by(g.in(0), g.dy()));
          if (g.in(2)) g.give(2, g.dy());
        },
    .optional_from = 2,
    .shares = {{0, 2}},
    .cost = [](SpecSpan in, SpecSpan, const Attrs&) -> Cost {
      return {2.0 * double(in[0].numel()), double(in[0].bytes() + in[1].bytes())};
    },
    .cpu = {.run =
                [](const KernelArgs& a) {
                  sum_products(a, 0, 1, input_if_present<float>(a, 2), a.output(0));
                },
            .prepare = prepare_products},
    .cuda = &inner_product_cuda,
    .examples = {{.operands = {example({3, 7}), example({3, 7}), example({1})}},
                 {.operands = {example({5, 13}, DType::f16), example({5, 13}, DType::f16),
                               absent_example()}},
                 {.operands = {example({33, 1031}), example({33, 1031}), absent_example()}}},
};

Val scale_by(Val x, Val factor) { return x.builder->emit1(scale_by_op, {x, factor}); }
Val inner_product(Val a, Val b, Val sum) { return a.builder->emit1(inner_product_op, {a, b, sum}); }

}  // namespace pal
