// y = a + b. Gradient: dy to both.
#include "ops/elementwise/add.h"

#include "core/gradient.h"
#include "ops/kernels/tiles.h"

namespace pal {

const OpDef add_op{
    .name = "add",
    .formula = "a + b",
    .infer = [](SpecSpan in, const Attrs&) { return infer_like_first(in, 2); },
    .gradient =
        [](GradientArgs& g) {
          g.give(0, g.dy());
          g.give(1, g.dy());
        },
    .shares = {{0, 0}, {0, 1}},
    .cpu = {.run = [](const KernelArgs& a) { map_elements<2>(a, Add{}); }},
    .cuda = &add_cuda,
    .examples = {{.operands = {example({3, 7}), example({3, 7})}},
                 {.operands = {example({5, 13}, DType::bf16), example({5, 13}, DType::bf16)}},
                 {.operands = {example({33, 1031}), example({33, 1031})}}},
};

Val add(Val a, Val b) { return a.builder->emit1(add_op, {a, b}); }

}  // namespace pal
