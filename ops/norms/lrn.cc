// d[c] = k + alpha sum x[j]^2,  y[c] = x[c] d[c]^-beta,
// dx[c] = dy[c] d[c]^-beta - 2 alpha beta x[c] sum dy[j] x[j] d[j]^(-beta - 1), sums over the
// window around c. d is computed again: the gradient keeps nothing but x.
#include "ops/norms/lrn.h"

#include <algorithm>

#include "core/gradient.h"
#include "core/parallel.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

struct Row {
  alignas(64) float squares[kLrnMostChannels], scale[kLrnMostChannels];
  alignas(64) float tile[3][kLrnMostChannels];  // of operands and the result stored in 16 bits
};

// out[c] = the sum of x over the window around c: itself, then its neighbours, the next to the
// right before the next to the left.
void window_sums(const float* x, int64_t channels, int64_t half, float* out) {
  std::copy(x, x + channels, out);
  for (int64_t d = 1; d <= std::min(half, channels - 1); ++d) {
    for (int64_t c = 0; c < channels - d; ++c) out[c] += x[c + d];
    for (int64_t c = d; c < channels; ++c) out[c] += x[c - d];
  }
}

// d of one row, in row.scale.
void denominators(const float* x, int64_t channels, const LrnAttrs& s, Row& row) {
  for (int64_t c = 0; c < channels; ++c) row.squares[c] = x[c] * x[c];
  window_sums(row.squares, channels, s.size / 2, row.scale);
  const LrnFormula f(s);
  for (int64_t c = 0; c < channels; ++c) row.scale[c] = f.denominator(row.scale[c]);
}

template <class F> void for_rows(const KernelArgs& a, F f) {
  const int64_t channels = a.in_spec[0].shape.back(), rows = a.in_spec[0].numel() / channels;
  const int64_t grain = std::max<int64_t>(1, kElementGrain / 8 / channels);
  parallel_chunks(a.queue, rows, grain, [&](int64_t begin, int64_t end) {
    Row row;
    for (int64_t r = begin; r < end; ++r) f(r * channels, channels, row);
  });
}

void run_forward(const KernelArgs& a) {
  auto& s = a.attrs.as<LrnAttrs>();
  const LrnFormula f(s);
  for_rows(a, [&](int64_t at, int64_t channels, Row& row) {
    const DType type = a.in_spec[0].dtype;
    const float* x = load_tile(a.in[0], type, at, channels, row.tile[0]);
    float* y = tile_to_fill(a.out[0], type, at, row.tile[1]);
    denominators(x, channels, s, row);
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) y[c] = x[c] * f.power(row.scale[c]);
    store_tile(a.out[0], type, at, channels, y);
  });
}

void run_gradient(const KernelArgs& a) {
  auto& s = a.attrs.as<LrnAttrs>();
  const LrnFormula f(s);
  for_rows(a, [&](int64_t at, int64_t channels, Row& row) {
    const DType type = a.in_spec[0].dtype;
    const float* dy = load_tile(a.in[0], type, at, channels, row.tile[0]);
    const float* x = load_tile(a.in[1], type, at, channels, row.tile[1]);
    float* dx = tile_to_fill(a.out[0], type, at, row.tile[2]);
    alignas(64) float part[kLrnMostChannels], power[kLrnMostChannels];
    denominators(x, channels, s, row);
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      power[c] = f.power(row.scale[c]);
      part[c] = f.part(dy[c], x[c], power[c], row.scale[c]);
    }
    window_sums(part, channels, s.size / 2, row.squares);
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      dx[c] = f.gradient(dy[c], x[c], power[c], row.squares[c]);
    }
    store_tile(a.out[0], type, at, channels, dx);
  });
}

Specs infer(SpecSpan in, size_t operands, const Attrs& attributes) {
  auto& s = attributes.as<LrnAttrs>();
  require(in.size() == operands && in[0].shape.rank() > 0 && is_float(in[0].dtype) &&
              !in[0].layout && in[0].shape.back() <= kLrnMostChannels,
          "takes plain floats (.., C), C at most ", kLrnMostChannels);
  require(operands == 1 || in[1] == in[0], "dy and x differ");
  require(s.size > 0 && s.size % 2 == 1 && s.k > 0, "size is odd, and k positive");
  return {in[0]};
}

Cost cost(SpecSpan in, SpecSpan out, const Attrs& attributes) {
  const double n = double(in[0].numel());
  return {.flops = n * double(40 + attributes.as<LrnAttrs>().size),
          .bytes = double(in.size() + out.size()) * double(in[0].bytes())};
}

// Strong enough for both terms of the gradient to count.
const LrnAttrs kStrong{.size = 3, .alpha = 0.5f, .beta = 0.75f, .k = 1};

}  // namespace

const OpDef lrn_op{
    .name = "lrn",
    .formula = "x / (k + alpha sum x^2)^beta over neighbouring channels",
    .infer = [](SpecSpan in, const Attrs& attrs) { return infer(in, 1, attrs); },
    .gradient =
        [](GradientArgs& g) {
          g.give(0, g.builder.emit1(lrn_grad_op, {g.dy(), g.in(0)}, g.node.attrs));
        },
    .shares = {{0, 0}},
    .rows = rows_of_each,
    .cost = cost,
    .cpu = {.run = run_forward},
    .cuda = &lrn_cuda,
    .examples = {{.operands = {example({2, 3, 2, 7})}, .attrs = kStrong},
                 {.operands = {example({3, 2})}, .attrs = LrnAttrs{}},
                 {.operands = {example({5, 17, 96})}, .attrs = LrnAttrs{5, 0.3f, 0.6f, 2}},
                 {.operands = {half_example({3, 4, 19})}, .attrs = kStrong},
                 {.operands = {half_example({5, 96}, DType::f16)}, .attrs = LrnAttrs{}}},
};

const OpDef lrn_grad_op{
    .name = "lrn_grad",
    .formula = "the gradient of x in lrn",
    .infer = [](SpecSpan in, const Attrs& attrs) { return infer(in, 2, attrs); },
    .shares = {{0, 0}, {0, 1}},
    .rows = rows_of_each,
    .cost = cost,
    .cpu = {.run = run_gradient},
    .cuda = &lrn_grad_cuda,
    .examples = {{.operands = {example({2, 7}), example({2, 7})}, .attrs = kStrong},
                 {.operands = {example({5, 17, 96}), example({5, 17, 96})}, .attrs = LrnAttrs{}},
                 {.operands = {example({3, 4, 19}, DType::bf16), example({3, 4, 19}, DType::bf16)},
                  .attrs = kStrong},
                 {.operands = {example({5, 96}, DType::f16), example({5, 96}, DType::f16)},
                  .attrs = LrnAttrs{}}},
};

Val lrn(Val x, const LrnAttrs& attrs) { return x.builder->emit1(lrn_op, {x}, attrs); }

}  // namespace pal
