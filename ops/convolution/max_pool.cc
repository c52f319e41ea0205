// y = max over the window of x, map = where in it.   dx = the sum of dy over the windows whose map
// points at the pixel. Each output row (of dx: each image row) is computed by one worker, windows
// in order. The gradient reads the map alone: one byte for each of y's pixels, none of x's.
#include "ops/convolution/max_pool.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/gradient.h"
#include "core/parallel.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/pooling.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

constexpr int64_t kLanes = 256;  // channels at a time

void require_attrs(const MaxPoolAttrs& s) {
  require(s.kernel_h > 0 && s.kernel_w > 0 && s.kernel_h * s.kernel_w <= 256 && s.stride_h > 0 &&
              s.stride_w > 0 && s.top >= 0 && s.left >= 0 && s.bottom >= 0 && s.right >= 0 &&
              s.top < s.kernel_h && s.bottom < s.kernel_h && s.left < s.kernel_w &&
              s.right < s.kernel_w,
          "windows of 1 to 256 pixels, positive strides, and less padding than the window");
}

// One window of up to kLanes channels; (h0, w0): its corner in the image, perhaps outside.
template <class T>
void pool_window(const T* image, const Shape& x, const MaxPoolAttrs& s, int64_t h0, int64_t w0,
                 int64_t lanes, T* y, uint8_t* map) {
  const int64_t channels = x[3];
  float best[kLanes];
  int32_t at[kLanes];
  bool first = true;
  for (int64_t k = std::max<int64_t>(0, -h0); k < std::min(s.kernel_h, x[1] - h0); ++k) {
    for (int64_t l = std::max<int64_t>(0, -w0); l < std::min(s.kernel_w, x[2] - w0); ++l) {
      const T* pixel = image + ((h0 + k) * x[2] + w0 + l) * channels;
      const int32_t here = int32_t(k * s.kernel_w + l);
      if (first) {
        for (int64_t c = 0; c < lanes; ++c) best[c] = load(pixel, c);
        std::fill(at, at + lanes, here);
        first = false;
        continue;
      }
#pragma omp simd
      for (int64_t c = 0; c < lanes; ++c) {
        const float v = load(pixel, c), b = best[c];
        const bool larger = v > b || (v != v && b == b);
        best[c] = larger ? v : b;
        at[c] = larger ? here : at[c];
      }
    }
  }
  for (int64_t c = 0; y && c < lanes; ++c) store(y, c, best[c]);
  if (!map) return;
  for (int64_t c = 0; c < lanes; ++c) map[c] = uint8_t(at[c]);
}

template <class T> void forward(const KernelArgs& a) {
  auto& s = a.attrs.as<MaxPoolAttrs>();
  const Shape &x = a.in_spec[0].shape, out = pooled(x, s);  // either output may be unread
  const int64_t channels = x[3], row = out[2] * channels;
  const int64_t grain = std::max<int64_t>(1, kElementGrain / (row * s.kernel_h * s.kernel_w));
  parallel_chunks(a.queue, out[0] * out[1], grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* image = a.input<T>(0) + r / out[1] * x[1] * x[2] * channels;
      const int64_t h0 = r % out[1] * s.stride_h - s.top;
      for (int64_t j = 0; j < out[2]; ++j) {
        for (int64_t c = 0; c < channels; c += kLanes) {
          const int64_t to = r * row + j * channels + c;
          pool_window(image + c, x, s, h0, j * s.stride_w - s.left, std::min(kLanes, channels - c),
                      a.out[0] ? a.output<T>(0) + to : nullptr,
                      a.out[1] ? a.output<uint8_t>(1) + to : nullptr);
        }
      }
    }
  });
}

void run_forward(const KernelArgs& a) {
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) { forward<T>(a); });
}

// The rows [first, last] of windows, put back into row h of an image's dx.
template <class T>
void put_back(const T* dy, const uint8_t* map, const Shape& out, const MaxPoolAttrs& s, int64_t h,
              int64_t first, int64_t last, float* dx) {
  const int64_t channels = out[3];
  for (int64_t i = first; i <= last; ++i) {
    const int64_t k = h + s.top - i * s.stride_h;
    for (int64_t j = 0; j < out[2]; ++j) {
      const int64_t from = (i * out[2] + j) * channels, w0 = j * s.stride_w - s.left;
      for (int64_t l = std::max<int64_t>(0, -w0); l < std::min(s.kernel_w, s.width - w0); ++l) {
        const uint8_t here = uint8_t(k * s.kernel_w + l);
        float* pixel = dx + (w0 + l) * channels;
#pragma omp simd
        for (int64_t c = 0; c < channels; ++c) {
          pixel[c] += map[from + c] == here ? load(dy, from + c) : 0.0f;
        }
      }
    }
  }
}

template <class T> void gradient(const KernelArgs& a) {
  auto& s = a.attrs.as<MaxPoolAttrs>();
  const Shape& out = a.in_spec[0].shape;
  const int64_t pixels = out[1] * out[2] * out[3];
  each_image_row(a, s, [&](int64_t n, int64_t h, int64_t first, int64_t last, float* dx) {
    put_back(a.input<T>(0) + n * pixels, a.input<uint8_t>(1) + n * pixels, out, s, h, first, last,
             dx);
  });
}
void run_gradient(const KernelArgs& a) {
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) { gradient<T>(a); });
}

Specs infer_gradient(SpecSpan in, const Attrs& attributes) {
  auto& s = attributes.as<MaxPoolAttrs>();
  require(in.size() == 2 && is_plain_image(in[0]) && in[1] == TensorSpec{in[0].shape, DType::u8},
          "needs floats (N,OH,OW,C) and a map u8 of the same shape");
  require_attrs(s);
  return infer_pool_gradient(in[0], s);
}

ExampleOperand argmax_map(Shape shape) { return constant(example(shape, DType::u8, 0, 3)); }

}  // namespace

const OpDef max_pool_op{
    .name = "max_pool",
    .formula = "max of x over the window, and where in it",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      require_attrs(attrs.as<MaxPoolAttrs>());
      const TensorSpec y = infer_pooled(in, attrs.as<MaxPoolAttrs>());
      return {y, {y.shape, DType::u8}};
    },
    .gradient =
        [](GradientArgs& g) {
          if (!g.dy()) return;
          const Shape& x = g.in(0).shape();
          g.give(0, g.builder.emit1(max_pool_grad_op, {g.dy(), g.out(1)},
                                    for_image(g.attrs<MaxPoolAttrs>(), x[1], x[2])));
        },
    .cost = [](SpecSpan in, SpecSpan out, const Attrs& attributes) -> Cost {
      auto& s = attributes.as<MaxPoolAttrs>();
      const double pixels = double(pooled(in[0].shape, s).numel());
      const double y_bytes = pixels * double(bits(in[0].dtype)) / 8;
      return {.flops = pixels * double(s.kernel_h * s.kernel_w),
              .bytes = double(in[0].bytes()) + y_bytes + (out[1].shape.rank() ? pixels : 0)};
    },
    .cpu = {.run = run_forward},
    .cuda = &max_pool_cuda,
    .examples = {{.operands = {example({2, 4, 6, 3})}, .attrs = max_pool_attrs(2, 2)},
                 {.operands = {example({1, 7, 5, 19})}, .attrs = max_pool_attrs(3, 2, 1)},
                 {.operands = {example({2, 5, 6, 2})},
                  .attrs = MaxPoolAttrs{3, 2, 1, 3, 2, 0, 0, 1},
                  .unread = {0, 1}},
                 {.operands = {example({3, 17, 15, 270})}, .attrs = max_pool_attrs(3, 2, 1)},
                 {.operands = {half_example({2, 7, 5, 19})}, .attrs = max_pool_attrs(3, 2, 1)},
                 {.operands = {half_example({3, 9, 8, 270}, DType::f16)},
                  .attrs = max_pool_attrs(2, 2)}},
};

const OpDef max_pool_grad_op{
    .name = "max_pool_grad",
    .formula = "dy put back where the maxima were",
    .infer = infer_gradient,
    .cost = pool_gradient_cost<MaxPoolAttrs>,
    .cpu = {.run = run_gradient, .prepare = prepare_pool_gradient},
    .cuda = &max_pool_grad_cuda,
    .examples = {{.operands = {example({2, 2, 3, 3}), argmax_map({2, 2, 3, 3})},
                  .attrs = for_image(max_pool_attrs(2, 2), 4, 6)},
                 {.operands = {example({3, 9, 8, 270}), argmax_map({3, 9, 8, 270})},
                  .attrs = for_image(max_pool_attrs(3, 2, 1), 17, 15)},
                 {.operands = {example({2, 4, 3, 19}, DType::bf16), argmax_map({2, 4, 3, 19})},
                  .attrs = for_image(max_pool_attrs(3, 2, 1), 7, 5)},
                 {.operands = {example({3, 9, 8, 270}, DType::f16), argmax_map({3, 9, 8, 270})},
                  .attrs = for_image(max_pool_attrs(3, 2, 1), 17, 15)}},
};

MaxPool max_pool(Val x, const MaxPoolAttrs& attrs) {
  const auto out = x.builder->emit(max_pool_op, {x}, attrs);
  return {out[0], out[1]};
}

}  // namespace pal
