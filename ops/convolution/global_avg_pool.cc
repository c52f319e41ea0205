// y[n,c] = sum_hw x[n,h,w,c] / (H W)      dx[n,h,w,c] = dy[n,c] / (H W)
// An image's pixels are added in their order, by one worker.
#include "ops/convolution/global_avg_pool.h"

#include <algorithm>

#include "core/gradient.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/pooling.h"

namespace pal {
namespace {

constexpr int64_t kLanes = 1024;  // channels at a time

template <class T> void forward(const KernelArgs& a) {
  const Shape& x = a.in_spec[0].shape;
  const int64_t pixels = x[1] * x[2], channels = x[3];
  const float share = 1.0f / float(pixels);
  parallel_chunks(a.queue, x[0], 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      for (int64_t c0 = 0; c0 < channels; c0 += kLanes) {
        const int64_t lanes = std::min(kLanes, channels - c0);
        const T* image = a.input<T>(0) + n * pixels * channels + c0;
        alignas(64) float sum[kLanes];
        std::fill(sum, sum + lanes, 0.0f);
        for (int64_t p = 0; p < pixels; ++p) {
          const T* pixel = image + p * channels;
#pragma omp simd
          for (int64_t c = 0; c < lanes; ++c) sum[c] += load(pixel, c);
        }
        T* y = a.output<T>(0) + n * channels + c0;
#pragma omp simd
        for (int64_t c = 0; c < lanes; ++c) store(y, c, sum[c] * share);
      }
    }
  });
}
void run_forward(const KernelArgs& a) {
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) { forward<T>(a); });
}

template <class T> void gradient(const KernelArgs& a) {
  const Shape& x = a.out_spec[0].shape;
  const int64_t pixels = x[1] * x[2], channels = x[3];
  const float share = 1.0f / float(pixels);
  const int64_t grain = std::max<int64_t>(1, kElementGrain / channels);
  parallel_chunks(a.queue, x[0] * pixels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const T* dy = a.input<T>(0) + p / pixels * channels;
      T* dx = a.output<T>(0) + p * channels;
#pragma omp simd
      for (int64_t c = 0; c < channels; ++c) store(dx, c, load(dy, c) * share);
    }
  });
}
void run_gradient(const KernelArgs& a) {
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) { gradient<T>(a); });
}

}  // namespace

const OpDef global_avg_pool_op{
    .name = "global_avg_pool",
    .formula = "the mean over H and W",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require(in.size() == 1 && is_plain_image(in[0]), "needs one plain image of floats (N,H,W,C)");
      return {{{in[0].shape[0], in[0].shape[3]}, in[0].dtype}};
    },
    .gradient =
        [](GradientArgs& g) {
          const Shape& x = g.in(0).shape();
          g.give(0, g.builder.emit1(global_avg_pool_grad_op, {g.dy()}, ImageSizeAttrs{x[1], x[2]}));
        },
    .rows = rows_of_each,
    .cpu = {.run = run_forward},
    .cuda = &global_avg_pool_cuda,
    .examples = {{.operands = {example({2, 3, 4, 5})}},
                 {.operands = {example({3, 1, 1, 19})}},
                 {.operands = {example({5, 7, 9, 37})}},
                 {.operands = {half_example({3, 5, 4, 24})}},
                 {.operands = {half_example({2, 3, 2, 1030}, DType::f16)}}},
};

const OpDef global_avg_pool_grad_op{
    .name = "global_avg_pool_grad",
    .formula = "dy / (H W) in every pixel",
    .infer = [](SpecSpan in, const Attrs& attributes) -> Specs {
      auto& s = attributes.as<ImageSizeAttrs>();
      require(in.size() == 1 && in[0].shape.rank() == 2 && is_float(in[0].dtype) && s.height > 0 &&
                  s.width > 0,
              "needs floats (N,C) and the image's height and width");
      return {{{in[0].shape[0], s.height, s.width, in[0].shape[1]}, in[0].dtype}};
    },
    .rows = rows_of_each,
    .cpu = {.run = run_gradient},
    .cuda = &global_avg_pool_grad_cuda,
    .examples = {{.operands = {example({2, 5})}, .attrs = ImageSizeAttrs{3, 4}},
                 {.operands = {example({5, 37})}, .attrs = ImageSizeAttrs{31, 29}},
                 {.operands = {example({3, 24}, DType::bf16)}, .attrs = ImageSizeAttrs{5, 4}},
                 {.operands = {example({3, 7}, DType::f16)}, .attrs = ImageSizeAttrs{31, 29}}},
};

Val global_avg_pool(Val x) { return x.builder->emit1(global_avg_pool_op, {x}); }

}  // namespace pal
