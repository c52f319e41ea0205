// y = max over the window of x, map = where in it.   dx = the sum of dy over the windows whose map
// points at the pixel. Each output row (of dx: each image row) is computed by one worker, windows
// in order. The gradient reads the map alone: half a byte for each of y's pixels, none of x's.
#include "ops/convolution/max_pool.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/builder.h"
#include "core/gradient.h"
#include "core/parallel.h"
#include "ops/elementwise/activations.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/pooling.h"
#include "ops/kernels/tiles.h"
#include "ops/tensors/casts.h"

namespace pal {
namespace {

constexpr int64_t kLanes = 256;  // channels at a time
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

// codes[0, n) to the elements of a map from `at` on; those before `at` are written already.
void store_codes(uint8_t* map, DType type, int64_t at, const int32_t* codes, int64_t n) {
  if (type == DType::u8) {
    for (int64_t c = 0; c < n; ++c) map[at + c] = uint8_t(codes[c]);
    return;
  }
  const int64_t odd = at & 1;
  if (odd) map[at / 2] = uint8_t(map[at / 2] | codes[0] << 4);
  uint8_t* to = map + (at + odd) / 2;
  const int64_t pairs = (n - odd) / 2;
  for (int64_t k = 0; k < pairs; ++k) {
    to[k] = uint8_t(codes[odd + 2 * k] | codes[odd + 2 * k + 1] << 4);
  }
  if (odd + 2 * pairs < n) to[pairs] = uint8_t(codes[n - 1]);
}

// n codes of a map from `at` on, in place or in `buffer`.
const uint8_t* load_codes(const uint8_t* map, DType type, int64_t at, int64_t n, uint8_t* buffer) {
  if (type == DType::u8) return map + at;
  const int64_t odd = at & 1;
  if (odd) buffer[0] = map[at / 2] >> 4;
  const uint8_t* from = map + (at + odd) / 2;
  const int64_t pairs = (n - odd) / 2;
  for (int64_t k = 0; k < pairs; ++k) {
    buffer[odd + 2 * k] = from[k] & 15, buffer[odd + 2 * k + 1] = from[k] >> 4;
  }
  if (odd + 2 * pairs < n) buffer[n - 1] = from[pairs] & 15;
  return buffer;
}

// One window of up to kLanes channels; (h0, w0): its corner in the image, perhaps outside.
template <class T>
void pool_window(const T* image, const Shape& x, const MaxPoolAttrs& s, int64_t h0, int64_t w0,
                 int64_t lanes, T* y, int32_t* at) {
  const int64_t channels = x[3];
  float best[kLanes];
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
  for (int64_t c = 0; s.positive && c < lanes; ++c) {
    at[c] = ((0 < best[c]) & (best[c] < kInfinity)) ? at[c] : kNowhere;
  }
}

template <class T> void forward(const KernelArgs& a) {
  auto& s = a.attrs.as<MaxPoolAttrs>();
  const Shape &x = a.in_spec[0].shape, out = pooled(x, s);  // either output may be unread
  const int64_t channels = x[3], row = out[2] * channels;
  uint8_t* map = a.output<uint8_t>(1);
  int64_t grain = std::max<int64_t>(1, kElementGrain / (row * s.kernel_h * s.kernel_w));
  grain += grain * row % 2;  // cut at even elements
  parallel_chunks(a.queue, out[0] * out[1], grain, [&](int64_t begin, int64_t end) {
    int32_t at[kLanes];
    for (int64_t r = begin; r < end; ++r) {
      const T* image = a.input<T>(0) + r / out[1] * x[1] * x[2] * channels;
      const int64_t h0 = r % out[1] * s.stride_h - s.top;
      for (int64_t j = 0; j < out[2]; ++j) {
        for (int64_t c = 0; c < channels; c += kLanes) {
          const int64_t to = r * row + j * channels + c, lanes = std::min(kLanes, channels - c);
          pool_window(image + c, x, s, h0, j * s.stride_w - s.left, lanes,
                      a.out[0] ? a.output<T>(0) + to : nullptr, at);
          if (map) store_codes(map, map_type(s), to, at, lanes);
        }
      }
    }
  });
}

void run_forward(const KernelArgs& a) {
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) { forward<T>(a); });
}

// One window of up to kLanes channels, row k of it, put back into row h of an image's dx.
template <class T>
void put_back(const T* dy, const uint8_t* codes, const MaxPoolAttrs& s, int64_t k, int64_t w0,
              int64_t channels, int64_t lanes, float* dx) {
  for (int64_t l = std::max<int64_t>(0, -w0); l < std::min(s.kernel_w, s.width - w0); ++l) {
    const uint8_t here = uint8_t(k * s.kernel_w + l);
    float* pixel = dx + (w0 + l) * channels;
#pragma omp simd
    for (int64_t c = 0; c < lanes; ++c) pixel[c] += codes[c] == here ? load(dy, c) : 0.0f;
  }
}

template <class T> void gradient(const KernelArgs& a) {
  auto& s = a.attrs.as<MaxPoolAttrs>();
  const Shape& out = a.in_spec[0].shape;
  const int64_t channels = out[3];
  const DType type = a.in_spec[1].dtype;
  each_image_row(a, s, [&](int64_t n, int64_t h, int64_t first, int64_t last, float* dx) {
    uint8_t buffer[kLanes];
    for (int64_t i = first; i <= last; ++i) {
      const int64_t k = h + s.top - i * s.stride_h;
      for (int64_t j = 0; j < out[2]; ++j) {
        for (int64_t c = 0; c < channels; c += kLanes) {
          const int64_t from = ((n * out[1] + i) * out[2] + j) * channels + c;
          const int64_t lanes = std::min(kLanes, channels - c);
          put_back(a.input<T>(0) + from, load_codes(a.input<uint8_t>(1), type, from, lanes, buffer),
                   s, k, j * s.stride_w - s.left, channels, lanes, dx + c);
        }
      }
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
                  .attrs = positive(max_pool_attrs(2, 1, 1))}},
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
                  .attrs = for_image(max_pool_attrs(3, 2, 1), 17, 15)},
                 {.operands = {example({3, 3, 5, 7}), argmax_map({3, 3, 5, 7}, DType::u4, 15)},
                  .attrs = for_image(max_pool_attrs(3, 2), 7, 11)},
                 {.operands = {example({2, 3, 4, 5}), argmax_map({2, 3, 4, 5}, DType::u8, 15)},
                  .attrs = for_image(max_pool_attrs(4, 2, 1), 7, 9)}},
};

MaxPool max_pool(Val x, const MaxPoolAttrs& attrs) {
  const auto out = x.builder->emit(max_pool_op, {x}, attrs);
  return {out[0], out[1]};
}

}  // namespace pal
