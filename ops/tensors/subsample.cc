// y[n,i,j,c] = x[n, s i, s j, c], 0 for the channels that x lacks;   dx = dy where a pixel was
// taken.
#include "ops/tensors/subsample.h"

#include <algorithm>

#include "core/gradient.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/pooling.h"

namespace pal {
namespace {

int64_t taken(int64_t extent, int64_t stride) { return (extent + stride - 1) / stride; }

// f(row of the large image, row of the small one) for every row of `large` (N, H, W, C), in
// parallel; the second is -1 where no pixel of the row is taken.
template <class F> void each_row(const Queue& queue, const Shape& large, int64_t stride, F&& f) {
  const int64_t grain = std::max<int64_t>(1, kElementGrain / (large[2] * large[3]));
  parallel_chunks(queue, large[0] * large[1], grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t n = r / large[1], h = r % large[1];
      f(r, h % stride == 0 ? n * taken(large[1], stride) + h / stride : -1);
    }
  });
}

template <class T> void forward(const KernelArgs& a) {
  const Shape &x = a.in_spec[0].shape, &y = a.out_spec[0].shape;
  const int64_t stride = a.attrs.as<SubsampleAttrs>().stride;
  each_row(a.queue, x, stride, [&](int64_t large, int64_t small) {
    if (small < 0) return;
    for (int64_t j = 0; j < y[2]; ++j) {
      const T* from = a.input<T>(0) + (large * x[2] + j * stride) * x[3];
      T* to = a.output<T>(0) + (small * y[2] + j) * y[3];
      std::fill(std::copy(from, from + x[3], to), to + y[3], T{});
    }
  });
}
void run_forward(const KernelArgs& a) {
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) { forward<T>(a); });
}

template <class T> void gradient(const KernelArgs& a) {
  const Shape &dy = a.in_spec[0].shape, &dx = a.out_spec[0].shape;
  const int64_t stride = a.attrs.as<SubsampleAttrs>().stride;
  each_row(a.queue, dx, stride, [&](int64_t large, int64_t small) {
    T* row = a.output<T>(0) + large * dx[2] * dx[3];
    std::fill(row, row + dx[2] * dx[3], T{});
    for (int64_t j = 0; small >= 0 && j < dy[2]; ++j) {
      const T* from = a.input<T>(0) + (small * dy[2] + j) * dy[3];
      std::copy(from, from + dx[3], row + j * stride * dx[3]);
    }
  });
}
void run_gradient(const KernelArgs& a) {
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) { gradient<T>(a); });
}

}  // namespace

const OpDef subsample_op{
    .name = "subsample",
    .formula = "every s-th pixel, and channels of zeros",
    .infer = [](SpecSpan in, const Attrs& attributes) -> Specs {
      auto& s = attributes.as<SubsampleAttrs>();
      require(in.size() == 1 && is_plain_image(in[0]), "needs one plain image of floats (N,H,W,C)");
      const Shape& x = in[0].shape;
      require(s.stride > 0 && s.channels >= x[3],
              "needs a positive stride, and no fewer channels than its operand has");
      return {{{x[0], taken(x[1], s.stride), taken(x[2], s.stride), s.channels}, in[0].dtype}};
    },
    .gradient =
        [](GradientArgs& g) {
          const Shape& x = g.in(0).shape();
          auto attrs = g.attrs<SubsampleAttrs>();
          attrs.channels = x[3], attrs.height = x[1], attrs.width = x[2];
          g.give(0, g.builder.emit1(subsample_grad_op, {g.dy()}, attrs));
        },
    .zeros = keeps_zeros,
    .cost = [](SpecSpan, SpecSpan out, const Attrs&) -> Cost {
      return {.flops = 0, .bytes = 2 * double(out[0].bytes())};
    },
    .cpu = {.run = run_forward},
    .cuda = &subsample_cuda,
    .examples = {{.operands = {example({2, 4, 6, 3})}, .attrs = SubsampleAttrs{2, 6}},
                 {.operands = {example({1, 5, 7, 2})}, .attrs = SubsampleAttrs{3, 2}},
                 {.operands = {example({2, 3, 2, 2})}, .attrs = SubsampleAttrs{1, 5}},
                 {.operands = {example({3, 33, 31, 16})}, .attrs = SubsampleAttrs{2, 32}},
                 {.operands = {half_example({2, 5, 7, 3})}, .attrs = SubsampleAttrs{2, 7}},
                 {.operands = {half_example({1, 4, 3, 2}, DType::f16)},
                  .attrs = SubsampleAttrs{3, 2}}},
};

const OpDef subsample_grad_op{
    .name = "subsample_grad",
    .formula = "dy where a pixel was taken, else 0",
    .infer = [](SpecSpan in, const Attrs& attributes) -> Specs {
      auto& s = attributes.as<SubsampleAttrs>();
      require(in.size() == 1 && is_plain_image(in[0]), "needs one plain image of floats (N,H,W,C)");
      const Shape& dy = in[0].shape;
      require(s.stride > 0 && s.channels > 0 && s.channels <= dy[3] &&
                  taken(s.height, s.stride) == dy[1] && taken(s.width, s.stride) == dy[2],
              in[0], ": is no gradient of an image of that size");
      return {{{dy[0], s.height, s.width, s.channels}, in[0].dtype}};
    },
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
      return {.flops = 0, .bytes = double(in[0].bytes() + out[0].bytes())};
    },
    .cpu = {.run = run_gradient},
    .cuda = &subsample_grad_cuda,
    .examples = {{.operands = {example({2, 2, 3, 6})}, .attrs = SubsampleAttrs{2, 3, 4, 6}},
                 {.operands = {example({1, 2, 3, 2})}, .attrs = SubsampleAttrs{3, 2, 5, 7}},
                 {.operands = {example({3, 17, 16, 32})}, .attrs = SubsampleAttrs{2, 16, 33, 31}},
                 {.operands = {example({2, 3, 4, 7}, DType::bf16)},
                  .attrs = SubsampleAttrs{2, 3, 5, 7}},
                 {.operands = {example({1, 2, 1, 2}, DType::f16)},
                  .attrs = SubsampleAttrs{3, 2, 4, 3}}},
};

Val subsample(Val x, int64_t stride, int64_t channels) {
  return x.builder->emit1(subsample_op, {x}, SubsampleAttrs{stride, channels});
}

}  // namespace pal
