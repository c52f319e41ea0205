// mul: y = a b, da = dy b, db = dy a.   sub: y = a - b, da = dy, db = -dy.
// scale: y = factor x, dx = factor dy.
#include "ops/elementwise/arithmetic.h"

#include "core/gradient.h"
#include "ops/kernels/tiles.h"

namespace pal {

const OpDef mul_op = map_op<2, Mul>({
    .name = "mul",
    .formula = "a * b",
    .gradient =
        [](GradientArgs& g) {
          if (g.wants(0)) g.give(0, mul(g.dy(), g.in(1)));
          if (g.wants(1)) g.give(1, mul(g.dy(), g.in(0)));
        },
    .cuda = &mul_cuda,
    .examples = alike_examples<2>(DType::f16),
});

const OpDef sub_op = map_op<2, Sub>({
    .name = "sub",
    .formula = "a - b",
    .gradient =
        [](GradientArgs& g) {
          g.give(0, g.dy());
          if (g.wants(1)) g.give(1, scale(g.dy(), -1));
        },
    .cuda = &sub_cuda,
    .examples = alike_examples<2>(DType::bf16),
});

const OpDef scale_op = map_op<1, Scale>({
    .name = "scale",
    .formula = "factor * x",
    .gradient = [](GradientArgs& g) { g.give(0, scale(g.dy(), g.attrs<ScaleAttrs>().factor)); },
    .zeros =
        [](const Attrs& attrs) {  // a negative factor makes -0 of 0
          return attrs.as<ScaleAttrs>().factor > 0 ? Zeros::keeps : Zeros::few;
        },
    .cuda = &scale_cuda,
    .examples = {{.operands = {example({3, 7})}, .attrs = ScaleAttrs{-0.75f}},
                 {.operands = {example({5, 13}, DType::bf16)}, .attrs = ScaleAttrs{3}},
                 {.operands = {example({33, 1031})}, .attrs = ScaleAttrs{2.5f}}},
});

Val mul(Val a, Val b) { return a.builder->emit1(mul_op, {a, b}); }
Val sub(Val a, Val b) { return a.builder->emit1(sub_op, {a, b}); }
Val scale(Val x, float factor) { return x.builder->emit1(scale_op, {x}, ScaleAttrs{factor}); }

}  // namespace pal
