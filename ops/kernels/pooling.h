// What max and average pooling share: windows over plain images (N, H, W, C). S is either's
// attributes.
#pragma once
#include <omp.h>

#include <algorithm>

#include "core/host_device.h"
#include "core/op.h"
#include "core/parallel.h"
#include "ops/kernels/divisor.h"
#include "ops/kernels/float_types.h"
#include "ops/kernels/tiles.h"

namespace pal {

// Of the image and of the windows' outputs.
struct PoolExtents {
  int64_t images, height, width, channels, out_height, out_width;
};

inline bool is_plain_image(const TensorSpec& spec) {
  return spec.shape.rank() == 4 && is_float(spec.dtype) && !spec.layout && spec.numel() > 0;
}

// Element i of an image (N, H, W, C): its channel, its place, and the image's number.
struct PixelPlace {
  int64_t channel, row, column, image;
};
struct PixelPlaces {
  Divisor channels, width, height;
  PixelPlaces(int64_t h, int64_t w, int64_t c) : channels(c), width(w), height(h) {}
  PAL_HD PixelPlace of(int64_t i) const {
    const auto pixel = channels.parts(i), row = width.parts(pixel.q), image = height.parts(row.q);
    return {pixel.r, image.r, row.r, image.q};
  }
};

// Windows along an extent with zeros around it; none where the window is larger.
inline int64_t window_count(int64_t extent, int64_t before, int64_t after, int64_t kernel,
                            int64_t stride) {
  const int64_t room = extent + before + after - kernel;
  return room < 0 ? 0 : room / stride + 1;
}

// The first window that ends at `at` or later, counted from the first window's corner.
PAL_HD inline int64_t first_window(int64_t at, int64_t kernel, int64_t stride) {
  return at < kernel ? 0 : divide(at - kernel, stride) + 1;
}

template <class S> Shape pooled(const Shape& x, const S& s) {
  return {x[0], window_count(x[1], s.top, s.bottom, s.kernel_h, s.stride_h),
          window_count(x[2], s.left, s.right, s.kernel_w, s.stride_w), x[3]};
}

// Of the windows over one image.
template <class S> TensorSpec infer_pooled(SpecSpan in, const S& s) {
  require(in.size() == 1 && is_plain_image(in[0]), "needs one plain image of floats (N,H,W,C)");
  const Shape out = pooled(in[0].shape, s);
  require(out.numel() > 0, in[0], ": the window is larger than the padded image");
  return {out, in[0].dtype};
}

// The attributes of the gradient, which does not read the image.
template <class S> S for_image(S attrs, int64_t height, int64_t width) {
  attrs.height = height, attrs.width = width;
  return attrs;
}

// Of the gradient: an operation for every pixel of a window.
template <class S> Cost pool_gradient_cost(SpecSpan in, SpecSpan out, const Attrs& attributes) {
  auto& s = attributes.as<S>();
  return streaming_cost(double(in[0].numel()) * double(s.kernel_h * s.kernel_w), in, out);
}

// Of the image's gradient.
template <class S> Specs infer_pool_gradient(const TensorSpec& dy, const S& s) {
  require(s.height > 0 && s.width > 0, "needs the image's height and width");
  const Shape image{dy.shape[0], s.height, s.width, dy.shape[3]};
  require(pooled(image, s) == dy.shape, dy, ": the gradient should be ", pooled(image, s));
  return {{image, dy.dtype}};
}

// Where dx is stored in 16 bits, every worker has a row of f32 sums.
inline int64_t sums_bytes(const Shape& image) {
  return align_up(image[2] * image[3] * int64_t(sizeof(float)));
}
inline Prepared prepare_pool_gradient(const Device& device, SpecSpan, SpecSpan out, const Attrs&) {
  if (out[0].dtype == DType::f32) return {};
  const int workers = std::max(device.threads, 1);
  return {.state = std::make_shared<int>(workers), .workspace = workers * sums_bytes(out[0].shape)};
}

// f(image's number, its row h, the rows [first, last] of windows that hold it, its dx), a row by
// one worker; dx holds zeros.
template <class S, class F> void each_image_row(const KernelArgs& a, const S& s, F f) {
  const Shape& out = a.in_spec[0].shape;
  const DType type = a.out_spec[0].dtype;
  const int64_t row = s.width * out[3];
  const int64_t grain = std::max<int64_t>(1, kElementGrain / (row * s.kernel_w));
  Queue some = a.queue;  // no more workers than prepare made room for
  if (a.state) some.workers = std::min(some.workers, *static_cast<const int*>(a.state));
  parallel_chunks(some, out[0] * s.height, grain, [&](int64_t begin, int64_t end) {
    const int64_t own = a.state ? omp_get_thread_num() * sums_bytes(a.out_spec[0].shape) : 0;
    for (int64_t r = begin; r < end; ++r) {
      float* dx =
          tile_to_fill(a.out[0], type, r * row, reinterpret_cast<float*>(a.workspace + own));
      std::fill(dx, dx + row, 0.0f);
      const int64_t h = r % s.height, at = h + s.top;
      if (at >= 0) {  // else left out
        f(r / s.height, h, first_window(at, s.kernel_h, s.stride_h),
          std::min(at / s.stride_h, out[1] - 1), dx);
      }
      store_tile(a.out[0], type, r * row, row, dx);
    }
  });
}

}  // namespace pal
