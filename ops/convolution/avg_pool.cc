// y = the mean of x over the window.   dx = the sum of dy / size over the windows that the pixel
// lies in. Each output row (of dx: each image row) is computed by one worker, windows in order. The
// gradient reads no value of x.
#include "ops/convolution/avg_pool.h"

#include <algorithm>

#include "core/gradient.h"
#include "core/parallel.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/pooling.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

constexpr int64_t kLanes = 256;  // channels at a time

template <class T> void forward(const KernelArgs& a) {
  auto& s = a.attrs.as<AvgPoolAttrs>();
  const Shape &x = a.in_spec[0].shape, &out = a.out_spec[0].shape;
  const int64_t channels = x[3], row = out[2] * channels;
  const int64_t grain = std::max<int64_t>(1, kElementGrain / (row * s.kernel_h * s.kernel_w));
  parallel_chunks(a.queue, out[0] * out[1], grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* image = a.input<T>(0) + r / out[1] * x[1] * x[2] * channels;
      const PoolSpan rows(r % out[1] * s.stride_h - s.top, s.kernel_h, x[1]);
      for (int64_t j = 0; j < out[2]; ++j) {
        const PoolSpan columns(j * s.stride_w - s.left, s.kernel_w, x[2]);
        const float factor = pool_share(rows, columns, s);
        for (int64_t c0 = 0; c0 < channels; c0 += kLanes) {
          const int64_t lanes = std::min(kLanes, channels - c0);
          float sum[kLanes] = {};
          for (int64_t h = rows.begin; h < rows.end; ++h) {
            for (int64_t w = columns.begin; w < columns.end; ++w) {
              const T* pixel = image + (h * x[2] + w) * channels + c0;
#pragma omp simd
              for (int64_t c = 0; c < lanes; ++c) sum[c] += load(pixel, c);
            }
          }
          T* y = a.output<T>(0) + r * row + j * channels + c0;
#pragma omp simd
          for (int64_t c = 0; c < lanes; ++c) store(y, c, sum[c] * factor);
        }
      }
    }
  });
}

void run_forward(const KernelArgs& a) {
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) { forward<T>(a); });
}

// The rows [first, last] of windows, spread over a row of an image's dx.
template <class T>
void spread(const T* dy, const Shape& out, const AvgPoolAttrs& s, int64_t first, int64_t last,
            float* dx) {
  const int64_t channels = out[3];
  for (int64_t i = first; i <= last; ++i) {
    const PoolSpan rows(i * s.stride_h - s.top, s.kernel_h, s.height);
    for (int64_t j = 0; j < out[2]; ++j) {
      const PoolSpan columns(j * s.stride_w - s.left, s.kernel_w, s.width);
      const float factor = pool_share(rows, columns, s);
      const T* from = dy + (i * out[2] + j) * channels;
      for (int64_t w = columns.begin; w < columns.end; ++w) {
        float* pixel = dx + w * channels;
#pragma omp simd
        for (int64_t c = 0; c < channels; ++c) pixel[c] += load(from, c) * factor;
      }
    }
  }
}

void run_gradient(const KernelArgs& a) {
  auto& s = a.attrs.as<AvgPoolAttrs>();
  const Shape& out = a.in_spec[0].shape;
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    auto* dy = a.input<T>(0);
    each_image_row(a, s, [&](int64_t n, int64_t, int64_t first, int64_t last, float* dx) {
      spread(dy + n * out[1] * out[2] * out[3], out, s, first, last, dx);
    });
  });
}

void require_attrs(const AvgPoolAttrs& s) {
  require(s.kernel_h > 0 && s.kernel_w > 0 && s.stride_h > 0 && s.stride_w > 0,
          "windows and strides are positive");
}

Specs infer_gradient(SpecSpan in, const Attrs& attributes) {
  auto& s = attributes.as<AvgPoolAttrs>();
  require(in.size() == 1 && is_plain_image(in[0]), "needs plain floats (N,OH,OW,C)");
  require_attrs(s);
  return infer_pool_gradient(in[0], s);
}

// Every other pixel from (1, 1) on, as NASNet's second path reads them.
AvgPoolAttrs shifted() {
  AvgPoolAttrs attrs = avg_pool_attrs(1, 2);
  attrs.top = attrs.left = -1, attrs.bottom = attrs.right = 1;
  return attrs;
}

}  // namespace

const OpDef avg_pool_op{
    .name = "avg_pool",
    .formula = "mean of x over the window",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      require_attrs(attrs.as<AvgPoolAttrs>());
      return {infer_pooled(in, attrs.as<AvgPoolAttrs>())};
    },
    .gradient =
        [](GradientArgs& g) {
          const Shape& x = g.in(0).shape();
          g.give(0, g.builder.emit1(avg_pool_grad_op, {g.dy()},
                                    for_image(g.attrs<AvgPoolAttrs>(), x[1], x[2])));
        },
    .rows = rows_of_each,
    .cost = [](SpecSpan in, SpecSpan out, const Attrs& attributes) -> Cost {
      auto& s = attributes.as<AvgPoolAttrs>();
      return streaming_cost(double(out[0].numel()) * double(s.kernel_h * s.kernel_w), in, out);
    },
    .cpu = {.run = run_forward},
    .cuda = &avg_pool_cuda,
    .examples = {{.operands = {example({2, 4, 6, 3})}, .attrs = avg_pool_attrs(2, 2)},
                 {.operands = {example({1, 7, 5, 19})}, .attrs = avg_pool_attrs(3, 2, 1, false)},
                 {.operands = {example({1, 5, 6, 4})}, .attrs = shifted()},
                 {.operands = {example({3, 17, 15, 270})}, .attrs = avg_pool_attrs(3, 1, 1)},
                 {.operands = {half_example({2, 7, 5, 19})},
                  .attrs = avg_pool_attrs(3, 2, 1, false)},
                 {.operands = {half_example({3, 9, 8, 270}, DType::f16)}, .attrs = shifted()}},
};

const OpDef avg_pool_grad_op{
    .name = "avg_pool_grad",
    .formula = "dy spread over its windows",
    .infer = infer_gradient,
    .rows = rows_of_each,
    .cost = pool_gradient_cost<AvgPoolAttrs>,
    .cpu = {.run = run_gradient, .prepare = prepare_pool_gradient},
    .cuda = &avg_pool_grad_cuda,
    .examples = {{.operands = {example({2, 2, 3, 3})},
                  .attrs = for_image(avg_pool_attrs(2, 2), 4, 6)},
                 {.operands = {example({1, 3, 3, 4})}, .attrs = for_image(shifted(), 5, 6)},
                 {.operands = {example({3, 9, 8, 270})},
                  .attrs = for_image(avg_pool_attrs(3, 2, 1, false), 17, 15)},
                 {.operands = {example({2, 4, 3, 19}, DType::bf16)},
                  .attrs = for_image(avg_pool_attrs(3, 2, 1), 7, 5)},
                 {.operands = {example({3, 5, 4, 270}, DType::f16)},
                  .attrs = for_image(shifted(), 9, 8)}},
};

Val avg_pool(Val x, const AvgPoolAttrs& attrs) { return x.builder->emit1(avg_pool_op, {x}, attrs); }

}  // namespace pal
