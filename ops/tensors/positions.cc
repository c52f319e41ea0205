// y[t,b,:] = factor x[t,b,:] + PE(first + t).  dx = factor dy.
// The angles are computed in f64: in f32, those of late positions would be off.
#include "ops/tensors/positions.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/gradient.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

// Of each pair of columns: 10000^(-2i/D).
using Frequencies = std::vector<double>;

Frequencies frequencies_of(int64_t width) {
  Frequencies frequencies;
  for (int64_t i = 0; 2 * i < width; ++i) {
    frequencies.push_back(std::pow(10000.0, -2.0 * double(i) / double(width)));
  }
  return frequencies;
}

// Columns j .. j + n of PE(at).
void fill_position(double at, const Frequencies& frequencies, int64_t j, int64_t n, float* to) {
  for (int64_t e = 0; e < n; ++e) {
    const double angle = at * frequencies[size_t((j + e) / 2)];
    to[e] = float((j + e) % 2 == 0 ? std::sin(angle) : std::cos(angle));
  }
}

Prepared prepare(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  return {.state = std::make_shared<Frequencies>(frequencies_of(in[0].shape[2]))};
}

void run(const KernelArgs& a) {
  const Shape& shape = a.in_spec[0].shape;
  const int64_t steps = shape[0], batch = shape[1], width = shape[2];
  const DType type = a.in_spec[0].dtype;
  const float factor = a.attrs.as<AddPositionsAttrs>().factor;
  const int32_t* first = input_if_present<int32_t>(a, 1);
  const Frequencies& frequencies = *static_cast<const Frequencies*>(a.state);
  const int64_t tiles = (width + kTile - 1) / kTile;
  parallel_chunks(a.queue, steps * tiles, 1, [&](int64_t unit, int64_t) {
    alignas(64) float position[kTile], buffer[2][kTile];
    const int64_t t = unit / tiles, j = unit % tiles * kTile, n = std::min(kTile, width - j);
    fill_position(double(t + (first ? *first : 0)), frequencies, j, n, position);
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t i = (t * batch + b) * width + j;
      const float* x = load_tile(a.in[0], type, i, n, buffer[0]);
      float* y = tile_to_fill(a.out[0], type, i, buffer[1]);
#pragma omp simd
      for (int64_t e = 0; e < n; ++e) y[e] = factor * x[e] + position[e];
      if (type != DType::f32) store_tile(a.out[0], type, i, n, y);
    }
  });
}

}  // namespace

const OpDef add_positions_op{
    .name = "add_positions",
    .formula = "factor x[t] + PE(first + t)",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() == 2, "takes x and the first position");
      require(is_float(in[0].dtype) && in[0].shape.rank() == 3, in[0], ": want floats (T, B, D)");
      require(!present(in[1]) || in[1] == TensorSpec{{1}, DType::i32}, in[1],
              ": the first position should be i32[1]");
      return {plain(in[0])};
    },
    .gradient =
        [](GradientArgs& g) {
          const float factor = g.attrs<AddPositionsAttrs>().factor;
          if (g.wants(0)) g.give(0, factor == 1 ? g.dy() : scale(g.dy(), factor));
        },
    .optional_from = 1,
    .shares = {{0, 0}},
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
      return {2 * double(out[0].numel()), double(in[0].bytes() + out[0].bytes())};
    },
    .cpu = {.run = run, .prepare = prepare},
    .cuda = &add_positions_cuda,
    .examples = {{.operands = {example({5, 2, 6}), absent_example()},
                  .attrs = AddPositionsAttrs{2.5f}},
                 {.operands = {example({3, 2, 7}), example({1}, DType::i32, 0, 100)},
                  .attrs = AddPositionsAttrs{}},
                 {.operands = {example({4, 3, 10}, DType::bf16), example({1}, DType::i32, 0, 9)},
                  .attrs = AddPositionsAttrs{3}},
                 {.operands = {example({40, 3, 530}), absent_example()},
                  .attrs = AddPositionsAttrs{1.5f}}},
};

std::vector<float> position_table(int64_t steps, int64_t width) {
  std::vector<float> out(size_t(steps * width));
  const Frequencies frequencies = frequencies_of(width);
  for (int64_t t = 0; t < steps; ++t) {
    fill_position(double(t), frequencies, 0, width, out.data() + t * width);
  }
  return out;
}

Val add_positions(Val x, float factor, Val first) {
  return x.builder->emit1(add_positions_op, {x, first}, AddPositionsAttrs{factor});
}

}  // namespace pal
