// dropout_mask: m_i = [u_i >= p] / (1 - p).      dropout_apply: y = x m, dx = dy m.
// dropout: y = x m with m drawn on the spot, dx = dropout(dy).   dropout_add: a + dropout(x).
#include "ops/elementwise/dropout.h"

#include <cstring>

#include "core/gradient.h"
#include "core/scalars.h"
#include "ops/elementwise/add.h"
#include "ops/kernels/float_types.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/tiles.h"
#include "ops/kernels/vectors.h"

namespace pal {

namespace {

using namespace vectors;

// The numbers of as many blocks as a vector has pairs, one behind the other: philox() in vectors.
// The upper halves of pairs hold whatever was left there, which no lower half depends on.
struct Numbers {
  Words first, second;
};
Numbers draw_blocks(const RandomKey& key, uint64_t block) {
  const auto all = [](uint32_t x) { return uint64_t(x) - Pairs{}; };
  Pairs x0 = all(uint32_t(block)), x1 = all(key.step), x2 = all(key.micro_batch),
        x3 = all(key.stream);
  constexpr uint64_t kIndex[] = {0, 1, 2, 3, 4, 5, 6, 7};
  x0 += load_vector<Pairs>(kIndex);
  uint32_t k0 = uint32_t(key.seed), k1 = uint32_t(key.seed >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const Pairs p0 = multiply_words(x0, all(kPhiloxFactor0));
    const Pairs p1 = multiply_words(x2, all(kPhiloxFactor1));
    x0 = p1 >> 32 ^ x1 ^ all(k0), x1 = p1;
    x2 = p0 >> 32 ^ x3 ^ all(k1), x3 = p0;
    k0 += kPhiloxStep0, k1 += kPhiloxStep1;
  }
  const Pairs low = (x0 & 0xffffffffu) | x1 << 32, high = (x2 & 0xffffffffu) | x3 << 32;
  const auto [first, second] = interleave(low, high);
  return {Words(first), Words(second)};
}

}  // namespace

void dropout_factors(const RandomKey& its, int64_t first, int64_t n, float p, float* out) {
  const RandomKey key = its;  // which `out` cannot change
  const uint32_t least = dropout_least(p);
  const Ints scale = Ints(all(dropout_scale(p)));
  const auto factors = [&](Words drawn) { return Floats(Ints(drawn >= least) & scale); };
  const uint64_t block = uint64_t(first) / 4;
  for (int64_t j = 0; j < n; j += 2 * kWidth) {
    const Numbers numbers = draw_blocks(key, block + uint64_t(j) / 4);
    const Floats drawn[2] = {factors(numbers.first), factors(numbers.second)};
    const int64_t left = (n - j + 3) / 4 * 4;
    if (left >= 2 * kWidth) {
      std::memcpy(out + j, drawn, sizeof drawn);
    } else {
      std::memcpy(out + j, drawn, size_t(left) * sizeof(float));
    }
  }
}

namespace {

void run_mask(const KernelArgs& a) {
  auto& attrs = a.attrs.as<DropoutMaskAttrs>();
  const RandomKey key = as_scalars(a.in[0]).key(uint32_t(attrs.stream));
  const int64_t size = a.out_spec[0].numel();
  parallel_chunks(a.queue, size, kElementGrain, [&](int64_t begin, int64_t end) {
    alignas(64) float factors[kTile];
    for (int64_t i = begin; i < end; i += kTile) {
      const int64_t n = std::min(kTile, end - i);
      dropout_factors(key, i, n, attrs.p, factors);
      store_tile(a.out[0], a.out_spec[0].dtype, i, n, factors);
    }
  });
}

// Operand 2, where there is one, is added to what dropout alone would have left, rounded to its
// type.
void run_dropout(const KernelArgs& a) {
  auto& attrs = a.attrs.as<DropoutAttrs>();
  const RandomKey key = as_scalars(a.in[1]).key(uint32_t(attrs.stream));
  const DType type = a.out_spec[0].dtype;
  parallel_chunks(a.queue, a.out_spec[0].numel(), kElementGrain, [&](int64_t begin, int64_t end) {
    const DropoutApply apply(attrs.p);
    alignas(64) float factors[kTile], buffer[3][kTile];
    for (int64_t i = begin; i < end; i += kTile) {
      const int64_t n = std::min(kTile, end - i);
      dropout_factors(key, i, n, attrs.p, factors);
      const float* x = load_tile(a.in[0], type, i, n, buffer[0]);
      const float* sum = a.in.size() > 2 ? load_tile(a.in[2], type, i, n, buffer[2]) : nullptr;
      float* y = tile_to_fill(a.out[0], type, i, buffer[1]);
      float* dropped = sum ? buffer[0] : y;
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) dropped[j] = apply(x[j], factors[j]);
      if (sum) add_stored(type, n, dropped, sum, y);
      if (type != DType::f32) store_tile(a.out[0], type, i, n, y);
    }
  });
}

void require_probability(float p) {
  require(p >= 0 && p < 1, "p is ", print_float(double(p)), ", should be in [0, 1)");
}
void require_scalars(const TensorSpec& spec) {
  require(spec == scalars_spec(), spec, ": the step's scalars should be ", scalars_spec());
}

int64_t stream_or_next(Val scalars, int64_t stream) {
  return stream == kNone ? scalars.builder->next_stream() : stream;
}

ExampleOperand constant_mask(Shape shape, DType type) {
  return {.spec = {shape, type}, .lo = -1, .hi = 1, .differentiable = false};
}

// A mask that is drawn to be applied, to values of any type. Each of its readers may draw it
// itself.
std::vector<FusedPattern> patterns(SpecSpan, const Attrs& attrs) {
  auto& drawn = attrs.as<DropoutMaskAttrs>();
  std::vector<FusedPattern> out;
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    Builder b;
    const Val x = b.input("x", {drawn.shape, type}), scalars = b.input("scalars", scalars_spec());
    const Val mask = dropout_mask(scalars, {drawn.shape, drawn.dtype}, drawn.p, drawn.stream);
    const Val y = b.emit1(dropout_apply_op, {x, mask}, DropoutApplyAttrs{drawn.p});
    out.push_back({.program = b.take(),
                   .in = {x.id, scalars.id},
                   .out = {y.id},
                   .attrs = DropoutAttrs{drawn.p, drawn.stream}});
  }
  return out;
}

// A sum with it, on either side.
std::vector<FusedPattern> sum_patterns(SpecSpan in, const Attrs& attrs) {
  std::vector<FusedPattern> out;
  for (const bool first : {false, true}) {
    Builder b;
    const Val x = b.input("x", in[0]), scalars = b.input("scalars", in[1]);
    const Val sum = b.input("a", in[0]), y = b.emit1(dropout_op, {x, scalars}, attrs);
    const Val z = first ? add(y, sum) : add(sum, y);
    out.push_back(
        {.program = b.take(), .in = {x.id, scalars.id, sum.id}, .out = {z.id}, .attrs = attrs});
  }
  return out;
}

}  // namespace

const Rewrite dropout_add_rewrite{.op = &dropout_add_op,
                                  .anchor = &dropout_op,
                                  .when = Rewrite::When::always,
                                  .patterns = sum_patterns};

const Rewrite dropout_rewrite{.op = &dropout_op, .anchor = &dropout_mask_op, .patterns = patterns};

const OpDef dropout_mask_op{
    .name = "dropout_mask",
    .formula = "[uniform >= p] / (1 - p)",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      auto& mask = attrs.as<DropoutMaskAttrs>();
      require_operands(in, 1, 1);
      require_probability(mask.p);
      require_scalars(in[0]);
      const TensorSpec out{mask.shape, mask.dtype};
      require(is_float(out.dtype), out, ": not floating-point");
      return {out};
    },
    .zeros = makes_zeros,
    .cost = [](SpecSpan, SpecSpan out, const Attrs&) -> Cost {
      return {15.0 * double(out[0].numel()), double(out[0].bytes())};
    },
    .cpu = {.run = run_mask},
    .cuda = &dropout_mask_cuda,
    .examples = {{.operands = {random_scalars_example()},
                  .attrs = DropoutMaskAttrs{{3, 7}, 0.3f, 1}},
                 {.operands = {random_scalars_example()}, .attrs = DropoutMaskAttrs{{5}, 0, 2}},
                 {.operands = {random_scalars_example()},
                  .attrs = DropoutMaskAttrs{{5, 13}, 0.3f, 4, DType::bf16}},
                 {.operands = {random_scalars_example()},
                  .attrs = DropoutMaskAttrs{{33, 1031}, 0.5f, 3}}},
};

const OpDef dropout_apply_op = map_op<2, DropoutApply>({
    .name = "dropout_apply",
    .formula = "x / (1 - p) if mask > 0 else 0",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      require_probability(attrs.as<DropoutApplyAttrs>().p);
      return infer_like_first(in, 2, true);
    },
    .gradient =
        [](GradientArgs& g) {
          const float p = g.attrs<DropoutApplyAttrs>().p;
          if (g.wants(0)) g.give(0, dropout_apply(g.dy(), g.in(1), p));
        },
    .reads = [](int operand, const Attrs&) -> Reads {
      return operand == 1 ? reads_predicate(0) : reads_values();
    },
    .zeros = makes_zeros,
    .cuda = &dropout_apply_cuda,
    .examples = {{.operands = {example({3, 7}), constant_mask({3, 7}, DType::f32)},
                  .attrs = DropoutApplyAttrs{0.5f}},
                 {.operands = {example({3, 7}), constant_mask({3, 7}, DType::bit)},
                  .attrs = DropoutApplyAttrs{0.2f}},
                 {.operands = {example({5, 13}, DType::bf16), constant_mask({5, 13}, DType::f32)},
                  .attrs = DropoutApplyAttrs{0.2f}},
                 {.operands = {example({33, 1031}), constant_mask({33, 1031}, DType::f32)},
                  .attrs = DropoutApplyAttrs{0.3f}}},
});

const OpDef dropout_op{
    .name = "dropout",
    .formula = "x / (1 - p) if uniform >= p else 0",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      require_probability(attrs.as<DropoutAttrs>().p);
      require_operands(in, 2, 2);
      require_scalars(in[1]);
      return infer_like_first(in.first(1), 1);
    },
    .gradient =
        [](GradientArgs& g) {
          if (!g.wants(0)) return;
          g.give(0, g.builder.emit1(dropout_op, {g.dy(), g.in(1)}, g.node.attrs));
        },
    .shares = {{0, 0}},
    .zeros = makes_zeros,
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
      return {15.0 * double(out[0].numel()), double(in[0].bytes() + out[0].bytes())};
    },
    .cpu = {.run = run_dropout},
    .cuda = &dropout_cuda,
    .examples = {{.operands = {example({3, 7}), random_scalars_example()},
                  .attrs = DropoutAttrs{0.3f, 1}},
                 {.operands = {example({5, 13}, DType::bf16), random_scalars_example()},
                  .attrs = DropoutAttrs{0.5f, 2}},
                 {.operands = {example({33, 1031}), random_scalars_example()},
                  .attrs = DropoutAttrs{0.5f, 3}}},
};

const OpDef dropout_add_op{
    .name = "dropout_add",
    .formula = "a + (x / (1 - p) if uniform >= p else 0)",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      require_probability(attrs.as<DropoutAttrs>().p);
      require_operands(in, 3, 3);
      require_scalars(in[1]);
      require(in[2] == in[0], in[0], ", ", in[2], ": want x and a alike");
      return infer_like_first(in.first(1), 1);
    },
    .shares = {{0, 0}, {0, 2}},
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
      return {16.0 * double(out[0].numel()), double(2 * in[0].bytes() + out[0].bytes())};
    },
    .cpu = {.run = run_dropout},
    .cuda = &dropout_add_cuda,
    .examples = {{.operands = {example({3, 7}), random_scalars_example(), example({3, 7})},
                  .attrs = DropoutAttrs{0.3f, 1}},
                 {.operands = {example({5, 13}, DType::bf16), random_scalars_example(),
                               example({5, 13}, DType::bf16)},
                  .attrs = DropoutAttrs{0.3f, 2}},
                 {.operands = {example({33, 1031}), random_scalars_example(), example({33, 1031})},
                  .attrs = DropoutAttrs{0.5f, 3}}},
};

Val dropout_mask(Val scalars, const TensorSpec& spec, float p, int64_t stream) {
  return scalars.builder->emit1(
      dropout_mask_op, {scalars},
      DropoutMaskAttrs{spec.shape, p, stream_or_next(scalars, stream), spec.dtype});
}
Val dropout_apply(Val x, Val mask, float p) {
  if (p == 0) return x;
  return x.builder->emit1(dropout_apply_op, {x, mask}, DropoutApplyAttrs{p});
}
Val dropout(Val x, Val scalars, float p, int64_t stream) {
  if (p == 0) return x;
  return x.builder->emit1(dropout_op, {x, scalars},
                          DropoutAttrs{p, stream_or_next(scalars, stream)});
}

}  // namespace pal
