// scale_channels: y = x f, dx = dy f, df = the sum of dy x over an image's pixels (dot_channels).
// dot_channels: each image's sums are made by one worker, pixels in order, in runs of kDotRun
// pixels.
#include "ops/elementwise/scale_channels.h"

#include <algorithm>

#include "core/gradient.h"
#include "core/parallel.h"
#include "ops/kernels/float_types.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

constexpr int64_t kLanes = 256;  // channels at a time

bool is_batch(const TensorSpec& spec) {
  return spec.shape.rank() >= 3 && is_float(spec.dtype) && !spec.layout && spec.numel() > 0;
}
Shape channels_of(const Shape& x) { return {x[0], x.back()}; }
int64_t pixels_of(const Shape& x) { return x.numel() / (x[0] * x.back()); }

template <class T> void scale(const KernelArgs& a) {
  const Shape& shape = a.in_spec[0].shape;
  const int64_t channels = shape.back(), pixels = pixels_of(shape);
  const T *x = a.input<T>(0), *factor = a.input<T>(1);
  T* y = a.output<T>(0);
  const int64_t grain = std::max<int64_t>(1, kElementGrain / channels);
  parallel_chunks(a.queue, shape[0] * pixels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T *row = x + r * channels, *f = factor + r / pixels * channels;
      T* to = y + r * channels;
#pragma omp simd
      for (int64_t c = 0; c < channels; ++c) store(to, c, load(row, c) * load(f, c));
    }
  });
}
void run_scale(const KernelArgs& a) {
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) { scale<T>(a); });
}

// Up to kLanes channels of one image.
template <class T>
void dot_image(const T* a, const T* b, int64_t pixels, int64_t channels, int64_t lanes, T* out) {
  float total[kLanes] = {};
  for (int64_t p = 0; p < pixels; p += kDotRun) {
    float part[kLanes] = {};
    for (int64_t i = p; i < std::min(p + kDotRun, pixels); ++i) {
      const T *x = a + i * channels, *y = b + i * channels;
#pragma omp simd
      for (int64_t c = 0; c < lanes; ++c) part[c] += load(x, c) * load(y, c);
    }
#pragma omp simd
    for (int64_t c = 0; c < lanes; ++c) total[c] += part[c];
  }
  for (int64_t c = 0; c < lanes; ++c) store(out, c, total[c]);
}

template <class T> void dot(const KernelArgs& a) {
  const Shape& shape = a.in_spec[0].shape;
  const int64_t channels = shape.back(), pixels = pixels_of(shape);
  const int64_t parts = (channels + kLanes - 1) / kLanes;
  parallel_chunks(a.queue, shape[0] * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / parts, c = i % parts * kLanes, at = n * pixels * channels + c;
      dot_image(a.input<T>(0) + at, a.input<T>(1) + at, pixels, channels,
                std::min(kLanes, channels - c), a.output<T>(0) + n * channels + c);
    }
  });
}
void run_dot(const KernelArgs& a) {
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) { dot<T>(a); });
}

}  // namespace

const OpDef scale_channels_op{
    .name = "scale_channels",
    .formula = "x[n,..,c] factor[n,c]",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() == 2 && is_batch(in[0]), "takes x (N,..,C) and a factor");
      const TensorSpec factor{channels_of(in[0].shape), in[0].dtype};
      require(in[1] == factor, in[1], ": the factor should be ", factor);
      return {in[0]};
    },
    .gradient =
        [](GradientArgs& g) {
          if (g.wants(0)) g.give(0, scale_channels(g.dy(), g.in(1)));
          if (g.wants(1)) g.give(1, dot_channels(g.dy(), g.in(0)));
        },
    .shares = {{0, 0}},
    .rows = rows_of_each,
    .cpu = {.run = run_scale},
    .cuda = &scale_channels_cuda,
    .examples = {{.operands = {example({2, 3, 4, 5}), example({2, 5})}},
                 {.operands = {example({1, 1, 1}), example({1, 1})}},
                 {.operands = {example({3, 7, 19}), example({3, 19})}},
                 {.operands = {example({3, 9, 11, 270}), example({3, 270})}},
                 {.operands = {half_example({2, 3, 4, 24}), half_example({2, 24})}},
                 {.operands = {half_example({3, 7, 19}, DType::f16),
                               half_example({3, 19}, DType::f16)}}},
};

const OpDef dot_channels_op{
    .name = "dot_channels",
    .formula = "the sum of a b over an image's pixels, by channel",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() == 2 && is_batch(in[0]) && in[1] == in[0],
              "takes two plain tensors of floats (N,..,C), alike");
      return {{channels_of(in[0].shape), in[0].dtype}};
    },
    .gradient =
        [](GradientArgs& g) {
          if (g.wants(0)) g.give(0, scale_channels(g.in(1), g.dy()));
          if (g.wants(1)) g.give(1, scale_channels(g.in(0), g.dy()));
        },
    .rows = rows_of_each,
    .cost = [](SpecSpan in, SpecSpan, const Attrs&) -> Cost {
      return {2.0 * double(in[0].numel()), 2.0 * double(in[0].bytes())};
    },
    .cpu = {.run = run_dot},
    .cuda = &dot_channels_cuda,
    .examples = {{.operands = {example({2, 3, 4, 5}), example({2, 3, 4, 5})}},
                 {.operands = {example({3, 67, 19}), example({3, 67, 19})}},
                 {.operands = {example({3, 9, 11, 270}), example({3, 9, 11, 270})}},
                 {.operands = {half_example({2, 67, 24}), half_example({2, 67, 24})}},
                 {.operands = {half_example({3, 5, 270}, DType::f16),
                               half_example({3, 5, 270}, DType::f16)}}},
};

Val scale_channels(Val x, Val factor) { return x.builder->emit1(scale_channels_op, {x, factor}); }
Val dot_channels(Val a, Val b) { return a.builder->emit1(dot_channels_op, {a, b}); }

}  // namespace pal
