// cast: y = x as another type, of many x in one node; dx = dy as x's type.
// to_bits: y = [lo < x < hi].
#include "ops/tensors/casts.h"

#include "core/gradient.h"
#include "ops/kernels/tiles.h"

namespace pal {

const OpDef cast_op{
    .name = "cast",
    .formula = "x as another type",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      const DType to = attrs.as<CastAttrs>().to;
      Specs out;
      for (const TensorSpec& x : in) {
        require(is_float(x.dtype) && is_float(to), x, " to ", to, ": not floating-point types");
        out.push_back({x.shape, to});
      }
      return out;
    },
    .gradient = [](GradientArgs& g) { g.give(0, cast(g.dy(), g.in(0).spec().dtype)); },
    .arity = 1,
    .zeros = gathers_zeros,
    .cpu = {.run =
                [](const KernelArgs& a) {
                  for (size_t k = 0; k < a.in.size(); ++k) {
                    if (a.out[k]) convert_operand(a, k, k);
                  }
                }},
    .cuda = &cast_cuda,
    .examples = {{.operands = {constant(example({3, 7}))}, .attrs = CastAttrs{DType::bf16}},
                 {.operands = {example({3, 7}, DType::f16)}, .attrs = CastAttrs{DType::f32}},
                 {.operands = {constant(example({33, 1031}))}, .attrs = CastAttrs{DType::f16}}},
};

const OpDef to_bits_op{
    .name = "to_bits",
    .formula = "[lo < x < hi], a bit each",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_operands(in, 1, 1);
      require(is_float(in[0].dtype) || in[0].dtype == DType::bit, in[0], ": not floating-point");
      return {{in[0].shape, DType::bit}};
    },
    .reads = [](int, const Attrs& attrs) -> Reads {
      auto& interval = attrs.as<BitsAttrs>();
      return reads_predicate(interval.lo, interval.hi);
    },
    .cpu = {.run = map_operands<1, Inside>},
    .cuda = &to_bits_cuda,
    .examples = {{.operands = {constant(example({3, 7}))}, .attrs = BitsAttrs{}},
                 {.operands = {example({5, 13}, DType::bf16)}, .attrs = BitsAttrs{-1, 1}},
                 {.operands = {constant(example({33, 1031}))}, .attrs = BitsAttrs{0, 1}}},
};

Val cast(Val x, DType to) {
  return x.spec().dtype == to ? x : x.builder->emit1(cast_op, {x}, CastAttrs{to});
}
Val to_bits(Val x, float lo, float hi) {
  return x.builder->emit1(to_bits_op, {x}, BitsAttrs{lo, hi});
}

}  // namespace pal
