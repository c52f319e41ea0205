// y = a + b. Gradient: dy to both.
#include "ops/elementwise/add.h"

#include "core/gradient.h"
#include "ops/kernels/tiles.h"

namespace pal {

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

Val add(Val a, Val b) { return a.builder->emit1(add_op, {a, b}); }

}  // namespace pal
