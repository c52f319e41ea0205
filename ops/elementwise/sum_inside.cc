// d = (a + b) [lo < y < hi].
#include "ops/elementwise/sum_inside.h"

#include <vector>

#include "core/builder.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

// The gradient of relu or clip over a sum; operands dy and y of pass_inside.
std::vector<FusedPattern> patterns(SpecSpan in, const Attrs& attrs) {
  Builder p;
  const Val a = p.input("a", in[0]), b = p.input("b", in[0]), y = p.input("y", in[1]);
  const Val d = p.emit1(pass_inside_op, {add(a, b), y}, attrs);
  return {{.program = p.take(), .in = {a.id, b.id, y.id}, .out = {d.id}, .attrs = attrs}};
}

Example of(const Shape& shape, DType type, DType y, const IntervalAttrs& interval) {
  return {.operands = {example(shape, type), example(shape, type), example(shape, y)},
          .attrs = interval};
}

}  // namespace

const Rewrite sum_inside_rewrite{.op = &sum_inside_op,
                                 .anchor = &pass_inside_op,
                                 .when = Rewrite::When::always,
                                 .patterns = patterns};

const OpDef sum_inside_op = map_op<3, SumInside>({
    .name = "sum_inside",
    .formula = "a + b if lo < y < hi else 0",
    .infer = [](SpecSpan in, const Attrs&) { return infer_like_first(in, 3, true); },
    .reads = [](int operand, const Attrs& attrs) -> Reads {
      auto& interval = attrs.as<IntervalAttrs>();
      return operand == 2 ? reads_predicate(interval.lo, interval.hi) : reads_values();
    },
    .zeros = makes_zeros,
    .cuda = &sum_inside_cuda,
    .examples = {of({3, 7}, DType::f32, DType::f32, {}),
                 of({3, 7}, DType::f32, DType::f32, {-1, 1}),
                 of({3, 7}, DType::f32, DType::bit, {-1, 1}),
                 of({5, 13}, DType::bf16, DType::bf16, {}),
                 of({33, 1031}, DType::f32, DType::f32, {0, 1})},
});

}  // namespace pal
