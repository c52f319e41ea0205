// y = max over the window of x, map = where in it.   dx = the sum of dy over the windows whose map
// points at the pixel, in order. Each output row (of dx: each image row) is computed by one worker.
// The gradient reads the map alone: half a byte for each of y's pixels, none of x's.
#include "ops/convolution/max_pool.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/builder.h"
#include "core/gradient.h"
#include "core/parallel.h"
#include "ops/convolution/max_pool_windows.h"
#include "ops/elementwise/activations.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/pooling.h"
#include "ops/kernels/tiles.h"
#include "ops/tensors/casts.h"

namespace pal {
namespace {

using pool::kLanes;  // channels at a time
constexpr float kInfinity = std::numeric_limits<float>::infinity();

void require_attrs(const MaxPoolAttrs& s) {
  require(s.kernel_h > 0 && s.kernel_w > 0 && s.kernel_h * s.kernel_w <= 256 && s.stride_h > 0 &&
              s.stride_w > 0 && s.top >= 0 && s.left >= 0 && s.bottom >= 0 && s.right >= 0 &&
              s.top < s.kernel_h && s.bottom < s.kernel_h && s.left < s.kernel_w &&
              s.right < s.kernel_w,
          "windows of 1 to 256 pixels, positive strides, and less padding than the window");
  require(!s.positive || map_type(s) == DType::u4, "no code for `nowhere` in windows above ",
          kNowhere, " pixels");
}

// Two places to a byte, n of them, to the elements of a map from `at` on; those before `at` are
// written already, and what shares a byte with the last comes later.
void store_places(uint8_t* map, int64_t at, const uint8_t* pairs, int64_t n) {
  uint8_t* to = map + at / 2;
  if (at % 2 == 0) return void(std::memcpy(to, pairs, size_t(n + 1) / 2));
  to[0] = uint8_t(to[0] | pairs[0] << 4);
#pragma omp simd
  for (int64_t k = 1; k < (n + 1) / 2; ++k) to[k] = uint8_t(pairs[k - 1] >> 4 | pairs[k] << 4);
  if (n % 2 == 0) to[n / 2] = pairs[n / 2 - 1] >> 4;
}

// One window of up to kLanes channels; (h0, w0): its corner in the image, perhaps outside. For maps
// of u8.
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
#pragma omp simd
  for (int64_t c = 0; c < lanes; ++c) store(y, c, best[c]), map[c] = uint8_t(at[c]);
}

// The same for maps of u4, of which `at` is the window's first element; x ends at `end`.
template <class T>
void pool_window(const T* image, const Shape& x, const MaxPoolAttrs& s, int64_t h0, int64_t w0,
                 int64_t lanes, T* y, uint8_t* map, int64_t at, const T* end) {
  pool::WindowPixels<T> pixels{end};
  for (int64_t k = std::max<int64_t>(0, -h0); k < std::min(s.kernel_h, x[1] - h0); ++k) {
    for (int64_t l = std::max<int64_t>(0, -w0); l < std::min(s.kernel_w, x[2] - w0); ++l) {
      pixels.add(image + ((h0 + k) * x[2] + w0 + l) * x[3], int(k * s.kernel_w + l));
    }
  }
  uint8_t pairs[kLanes / 2];
  if (s.positive)
    pool::pool_pixels<true>(pixels, lanes, y, pairs);
  else
    pool::pool_pixels<false>(pixels, lanes, y, pairs);
  if (map) store_places(map, at, pairs, lanes);
}

template <class T> void forward(const KernelArgs& a) {
  auto& s = a.attrs.as<MaxPoolAttrs>();
  const Shape &x = a.in_spec[0].shape, out = pooled(x, s);  // either output may be unread
  const int64_t channels = x[3], row = out[2] * channels;
  const bool pairs = map_type(s) == DType::u4;
  int64_t grain = std::max<int64_t>(1, kElementGrain / (row * s.kernel_h * s.kernel_w));
  grain += grain * row % 2;  // cut at even elements
  parallel_chunks(a.queue, out[0] * out[1], grain, [&](int64_t begin, int64_t end) {
    T no_y[kLanes];
    uint8_t no_map[kLanes];
    for (int64_t r = begin; r < end; ++r) {
      const T* image = a.input<T>(0) + r / out[1] * x[1] * x[2] * channels;
      const int64_t h0 = r % out[1] * s.stride_h - s.top;
      for (int64_t j = 0; j < out[2]; ++j) {
        const int64_t w0 = j * s.stride_w - s.left;
        for (int64_t c = 0; c < channels; c += kLanes) {
          const int64_t to = r * row + j * channels + c, lanes = std::min(kLanes, channels - c);
          T* y = a.out[0] ? a.output<T>(0) + to : no_y;
          uint8_t* map = a.output<uint8_t>(1);
          if (pairs)
            pool_window(image + c, x, s, h0, w0, lanes, y, map, to,
                        a.input<T>(0) + a.in_spec[0].numel());
          else
            pool_window(image + c, x, s, h0, w0, lanes, y, map ? map + to : no_map);
        }
      }
    }
  });
}

void run_forward(const KernelArgs& a) {
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) { forward<T>(a); });
}

// One window, row k of it, put back into a row of an image's dx.
template <class T>
void put_back(const T* dy, const uint8_t* map, const MaxPoolAttrs& s, int64_t k, int64_t w0,
              int64_t channels, float* dx) {
  for (int64_t l = std::max<int64_t>(0, -w0); l < std::min(s.kernel_w, s.width - w0); ++l) {
    const uint8_t here = uint8_t(k * s.kernel_w + l);
    float* pixel = dx + (w0 + l) * channels;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) pixel[c] += map[c] == here ? load(dy, c) : 0.0f;
  }
}

// From a map of u8: window after window.
template <class T> void gradient_of_bytes(const KernelArgs& a) {
  auto& s = a.attrs.as<MaxPoolAttrs>();
  const Shape& out = a.in_spec[0].shape;
  const int64_t channels = out[3];
  each_image_row(a, s, [&](int64_t n, int64_t h, int64_t first, int64_t last, float* dx) {
    for (int64_t i = first; i <= last; ++i) {
      const int64_t k = h + s.top - i * s.stride_h;
      for (int64_t j = 0; j < out[2]; ++j) {
        const int64_t from = ((n * out[1] + i) * out[2] + j) * channels;
        put_back(a.input<T>(0) + from, a.input<uint8_t>(1) + from, s, k, j * s.stride_w - s.left,
                 channels, dx);
      }
    }
  });
}

// From a map of u4: row h of image n, pixel after pixel.
template <class T> void gradient_row(const KernelArgs& a, int64_t n, int64_t h, T* dx) {
  auto& s = a.attrs.as<MaxPoolAttrs>();
  const Shape& out = a.in_spec[0].shape;
  const int64_t channels = out[3], at_h = h + s.top;
  const int64_t top = first_window(at_h, s.kernel_h, s.stride_h);
  const int64_t bottom = std::min(at_h / s.stride_h, out[1] - 1);
  const T* end = a.input<T>(0) + out.numel();
  const uint8_t *map = a.input<uint8_t>(1), *map_end = map + a.in_spec[1].bytes();
  uint8_t buffers[pool::kMostInWindow][kLanes / 2];
  // Pixels [w, next) lie in the windows [left, right] of each row of windows.
  for (int64_t w = 0, next = 0, left = 0, right = -1; w < s.width; w = next) {
    const int64_t at_w = w + s.left;
    while (left * s.stride_w + s.kernel_w <= at_w) ++left;
    while (right + 1 < out[2] && (right + 1) * s.stride_w <= at_w) ++right;
    next = right + 1 < out[2] ? (right + 1) * s.stride_w - s.left : s.width;
    if (left <= right) next = std::min(next, left * s.stride_w + s.kernel_w - s.left);
    next = std::min(next, s.width);
    if (left > right || top > bottom) {
      std::fill(dx + w * channels, dx + next * channels, T{});
      continue;
    }
    for (int64_t c = 0; c < channels; c += kLanes) {
      const int64_t lanes = std::min(kLanes, channels - c);
      pool::PixelWindows<T> windows{end};
      for (int64_t i = top; i <= bottom; ++i) {
        const int64_t place = (at_h - i * s.stride_h) * s.kernel_w + at_w;
        for (int64_t j = left; j <= right; ++j) {
          const int64_t from = ((n * out[1] + i) * out[2] + j) * channels + c;
          windows.add(a.input<T>(0) + from,
                      pool::load_places(map, from, lanes, map_end, buffers[windows.count]),
                      int(place - j * s.stride_w));
        }
      }
      pool::sum_windows(windows, lanes, next - w, channels, dx + w * channels + c);
    }
  }
}

template <class T> void gradient(const KernelArgs& a) {
  auto& s = a.attrs.as<MaxPoolAttrs>();
  if (a.in_spec[1].dtype == DType::u8) return gradient_of_bytes<T>(a);
  const int64_t row = s.width * a.in_spec[0].shape[3];
  const int64_t grain = std::max<int64_t>(1, kElementGrain / (row * s.kernel_w));
  parallel_chunks(a.queue, a.out_spec[0].shape[0] * s.height, grain,
                  [&](int64_t begin, int64_t end) {
                    for (int64_t r = begin; r < end; ++r) {
                      gradient_row(a, r / s.height, r % s.height, a.output<T>(0) + r * row);
                    }
                  });
}
void run_gradient(const KernelArgs& a) {
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) { gradient<T>(a); });
}

Specs infer_gradient(SpecSpan in, const Attrs& attributes) {
  auto& s = attributes.as<MaxPoolAttrs>();
  require_attrs(s);
  const DType map = map_type(s);
  require(in.size() == 2 && is_plain_image(in[0]) && in[1] == TensorSpec{in[0].shape, map},
          "needs floats (N,OH,OW,C) and a map ", map, " of the same shape");
  return infer_pool_gradient(in[0], s);
}

ExampleOperand argmax_map(Shape shape, DType type = DType::u4, float last = 3) {
  return constant(example(shape, type, 0, last));
}

MaxPoolAttrs positive(MaxPoolAttrs attrs) {
  attrs.positive = true;
  return attrs;
}

// The pool's operand as it is, or its bits where they are kept (memory/passes/encode.h).
std::vector<FusedPattern> relu_patterns(SpecSpan in, const Attrs& attributes) {
  std::vector<FusedPattern> out;
  auto& s = attributes.as<MaxPoolAttrs>();
  if (s.positive || map_type(s) != DType::u4) return out;
  for (const bool bits : {false, true}) {
    Builder b;
    Val x = b.input("x", infer_pool_gradient(in[0], s)[0]), dy = b.input("dy", in[0]);
    const MaxPoolAttrs forward = for_image(s, 0, 0);
    const MaxPool pool = max_pool(x, forward);
    Val asked = bits ? to_bits(x, 0) : x;
    Builder::Within phase(b, Phase::backward);
    Val d = b.emit1(max_pool_grad_op, {dy, pool.map}, s);
    Val dx = pass_inside(d, asked, 0, kInfinity);
    FusedPattern pattern{.in = {dy.id, pool.map.id}, .out = {dx.id}, .attrs = attributes};
    pattern.stays = {b.program().value(pool.map.id).producer, positive(forward)};
    pattern.program = b.take();
    out.push_back(std::move(pattern));
  }
  return out;
}

}  // namespace

const Rewrite max_pool_relu_rewrite{.op = &max_pool_grad_op,
                                    .anchor = &max_pool_grad_op,
                                    .when = Rewrite::When::always,
                                    .patterns = relu_patterns};

const OpDef max_pool_op{
    .name = "max_pool",
    .formula = "max of x over the window, and where in it",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      require_attrs(attrs.as<MaxPoolAttrs>());
      const TensorSpec y = infer_pooled(in, attrs.as<MaxPoolAttrs>());
      return {y, {y.shape, map_type(attrs.as<MaxPoolAttrs>())}};
    },
    .gradient =
        [](GradientArgs& g) {
          if (!g.dy()) return;
          const Shape& x = g.in(0).shape();
          g.give(0, g.builder.emit1(max_pool_grad_op, {g.dy(), g.out(1)},
                                    for_image(g.attrs<MaxPoolAttrs>(), x[1], x[2])));
        },
    .zeros = keeps_zeros,
    .rows = rows_of_each,
    .cost = [](SpecSpan in, SpecSpan out, const Attrs& attributes) -> Cost {
      auto& s = attributes.as<MaxPoolAttrs>();
      const double pixels = double(pooled(in[0].shape, s).numel());
      const double y_bytes = pixels * double(bits(in[0].dtype)) / 8;
      return {.flops = pixels * double(s.kernel_h * s.kernel_w),
              .bytes = double(in[0].bytes()) + y_bytes +
                       (out[1].shape.rank() ? double(out[1].bytes()) : 0)};
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
                  .attrs = max_pool_attrs(2, 2)},
                 {.operands = {example({2, 7, 9, 5})}, .attrs = max_pool_attrs(4, 2, 1)},
                 {.operands = {example({5, 9, 11, 37})}, .attrs = positive(max_pool_attrs(3, 2))},
                 {.operands = {example({2, 9, 7, 3}, DType::bf16)},
                  .attrs = positive(max_pool_attrs(2, 1, 1))},
                 {.operands = {half_example({2, 9, 8, 24})},
                  .attrs = positive(max_pool_attrs(3, 2, 1))},
                 {.operands = {example({2, 7, 6, 16})}, .attrs = max_pool_attrs(2, 2)},
                 {.operands = {half_example({2, 6, 9, 8}, DType::f16)},
                  .attrs = MaxPoolAttrs{3, 3, 2, 2, 2, 0, 0, 1},
                  .unread = {0, 1}}},
};

const OpDef max_pool_grad_op{
    .name = "max_pool_grad",
    .formula = "dy put back where the maxima were",
    .infer = infer_gradient,
    .rows = rows_of_each,
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
                  .attrs = for_image(max_pool_attrs(3, 2, 1), 17, 15)},
                 {.operands = {example({3, 3, 5, 7}), argmax_map({3, 3, 5, 7}, DType::u4, 15)},
                  .attrs = for_image(max_pool_attrs(3, 2), 7, 11)},
                 {.operands = {example({2, 3, 4, 5}), argmax_map({2, 3, 4, 5}, DType::u8, 15)},
                  .attrs = for_image(max_pool_attrs(4, 2, 1), 7, 9)},
                 {.operands = {half_example({2, 5, 4, 24}),
                               argmax_map({2, 5, 4, 24}, DType::u4, 9)},
                  .attrs = for_image(max_pool_attrs(3, 2, 1), 9, 8)},
                 {.operands = {example({2, 3, 3, 16}), argmax_map({2, 3, 3, 16})},
                  .attrs = for_image(max_pool_attrs(2, 2), 7, 6)}},
};

MaxPool max_pool(Val x, const MaxPoolAttrs& attrs) {
  const auto out = x.builder->emit(max_pool_op, {x}, attrs);
  return {out[0], out[1]};
}

}  // namespace pal
