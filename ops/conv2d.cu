// conv2d and its gradients as matrix products (cuBLASLt's) over the image's windows laid out as
// rows, (N OH OW, KH KW C), some images at a time:
//   y = windows w^T,   dwindows = dy w, which dx gathers,   dw = dy^T windows (+ sum).
// A 1 x 1 kernel of stride 1 without padding takes the image itself as its windows. Images come one
// group after the other, and every pixel of dx has one thread, so the bits are always the same.
#include "ops/conv2d.h"
#include "ops/conv2d_kernel.h"
#include "ops/cuda.h"
#include "ops/cuda_elements.h"
#include "ops/cuda_product.h"
#include "ops/operands.h"

namespace pal {
namespace {

// Of the windows that are there at a time: this part of the device's memory, 64 MiB at most.
constexpr int64_t kMostBytes = int64_t(64) << 20, kPartOfMemory = 256;

struct State {
  ConvShape shape;
  bool whole;      // the image is its windows
  int64_t images;  // at a time
  int64_t windows_at;
  std::unique_ptr<CudaProduct> product, last;  // of so many images, and of what is left over

  int64_t pixels() const { return shape.oh * shape.ow; }          // of y, per image
  int64_t taps() const { return shape.kh * shape.kw * shape.c; }  // of a window
  int64_t image() const { return shape.h * shape.w * shape.c; }   // elements
};

ProductShape product_shape(ConvKind kind, const State& s, int64_t images) {
  const int64_t rows = images * s.pixels(), taps = s.taps(), o = s.shape.o;
  switch (kind) {
    case ConvKind::forward:
      return {.m = rows,
              .n = o,
              .k = taps,
              .a = {0, taps, 1},
              .b = {0, 1, taps},
              .c = {0, o, 1},
              .bias = s.shape.bias};
    case ConvKind::data_grad:
      return {.m = rows, .n = taps, .k = o, .a = {0, o, 1}, .b = {0, taps, 1}, .c = {0, taps, 1}};
    default:
      return {.m = o, .n = taps, .k = rows, .a = {0, 1, o}, .b = {0, taps, 1}, .c = {0, taps, 1}};
  }
}

template <ConvKind kind>
Prepared prepare(const Device& device, SpecSpan in, SpecSpan, const Attrs& attrs) {
  constexpr const char* kNames[] = {"conv2d", "conv2d_data_grad", "conv2d_weight_grad"};
  const char* op = kNames[int(kind)];
  auto state = std::make_shared<State>();
  State& s = *state;
  s.shape = conv_shape(kind, in, attrs.as<Conv2dAttrs>());
  const ConvShape& c = s.shape;
  s.whole = c.kh == 1 && c.kw == 1 && c.oh == c.h && c.ow == c.w;
  const int64_t bytes = s.pixels() * s.taps() * int64_t(sizeof(float));
  const int64_t most = std::min(kMostBytes, cuda_of(device).total_bytes() / kPartOfMemory);
  s.images = s.whole ? c.n : std::clamp<int64_t>(most / bytes, 1, c.n);
  s.product = std::make_unique<CudaProduct>(device, op, product_shape(kind, s, s.images));
  s.windows_at = s.product->workspace();
  if (const int64_t rest = c.n % s.images) {
    s.last = std::make_unique<CudaProduct>(device, op, product_shape(kind, s, rest));
    s.windows_at = std::max(s.windows_at, s.last->workspace());
  }
  return {.state = std::move(state), .workspace = s.windows_at + (s.whole ? 0 : s.images * bytes)};
}

// Element (n, i, j, k, l, c) of the windows is x[n, i stride + k - top, j stride + l - left, c], or
// 0 outside. Eight channels a thread.
__global__ void windows_kernel(Stored windows, Stored x, ConvShape s, int64_t images) {
  const int64_t g = thread_number(), per_tap = (s.c + kGroup - 1) / kGroup;
  if (g >= images * s.oh * s.ow * s.kh * s.kw * per_tap) return;
  const int64_t tap = g / per_tap, c = (g - tap * per_tap) * kGroup;
  const int64_t l = tap % s.kw, k = tap / s.kw % s.kh, pixel = tap / s.kw / s.kh;
  const int64_t j = pixel % s.ow, i = pixel / s.ow % s.oh, n = pixel / s.ow / s.oh;
  const int64_t h = i * s.stride_h + k - s.top, w = j * s.stride_w + l - s.left;
  const int count = group_size(c, s.c);
  float v[kGroup] = {};
  if (h >= 0 && h < s.h && w >= 0 && w < s.w) {
    load8(x, ((n * s.h + h) * s.w + w) * s.c + c, count, v);
  }
  store8(windows, tap * s.c + c, count, v);
}

// dx of a pixel: the sum over the windows that it lies in, row by row.
__global__ void gather_windows_kernel(float* dx, const float* windows, ConvShape s,
                                      int64_t images) {
  const int64_t e = thread_number();
  if (e >= images * s.h * s.w * s.c) return;
  const int64_t c = e % s.c, pixel = e / s.c, n = pixel / s.w / s.h;
  const int64_t h = pixel / s.w % s.h + s.top, w = pixel % s.w + s.left;
  float sum = 0;
  for (int64_t i = h < s.kh ? 0 : (h - s.kh) / s.stride_h + 1; i < s.oh && i * s.stride_h <= h;
       ++i) {
    for (int64_t j = w < s.kw ? 0 : (w - s.kw) / s.stride_w + 1; j < s.ow && j * s.stride_w <= w;
         ++j) {
      const int64_t k = h - i * s.stride_h, l = w - j * s.stride_w;
      sum += windows[((((n * s.oh + i) * s.ow + j) * s.kh + k) * s.kw + l) * s.c + c];
    }
  }
  dx[e] = sum;
}

// Calls f(first image, images, product, where the windows are or shall be).
template <class F>
void each_group(const KernelArgs& a, float* image, F f) {
  const State& s = *static_cast<const State*>(a.state);
  float* room = reinterpret_cast<float*>(a.workspace + s.windows_at);
  for (int64_t n = 0; n < s.shape.n; n += s.images) {
    const bool full = n + s.images <= s.shape.n;
    f(n, full ? s.images : s.shape.n - n, full ? *s.product : *s.last,
      s.whole ? image + n * s.image() : room);
  }
}

void lay_out(const KernelArgs& a, float* windows, const float* x, int64_t images) {
  const State& s = *static_cast<const State*>(a.state);
  if (s.whole) return;
  const int64_t groups = images * s.pixels() * s.shape.kh * s.shape.kw * groups_of(s.shape.c);
  launch(windows_kernel, grid_of_groups(groups), kThreads, 0, stream_of(a),
         stored(windows, {}, s.shape.c), stored(x, {}, s.shape.c), s.shape, images);
}

void run(const KernelArgs& a) {
  if (!a.out[0]) return;
  const State& s = *static_cast<const State*>(a.state);
  float* x = static_cast<float*>(a.in[0]);
  each_group(a, x, [&](int64_t n, int64_t images, const CudaProduct& product, float* windows) {
    lay_out(a, windows, x + n * s.image(), images);
    product.run(stream_of(a), windows, a.in[1], nullptr, a.output(0) + n * s.pixels() * s.shape.o,
                input_if_present(a, 2), a.workspace);
  });
}

void run_data_grad(const KernelArgs& a) {
  if (!a.out[0]) return;
  const State& s = *static_cast<const State*>(a.state);
  float* dx = a.output(0);
  each_group(a, dx, [&](int64_t n, int64_t images, const CudaProduct& product, float* windows) {
    product.run(stream_of(a), a.input(0) + n * s.pixels() * s.shape.o, a.in[1], nullptr, windows,
                nullptr, a.workspace);
    if (s.whole) return;
    launch(gather_windows_kernel, {blocks_of(images * s.image(), kThreads)}, kThreads, 0,
           stream_of(a), dx + n * s.image(), windows, s.shape, images);
  });
}

void run_weight_grad(const KernelArgs& a) {
  if (!a.out[0]) return;
  const State& s = *static_cast<const State*>(a.state);
  float* x = static_cast<float*>(a.in[0]);
  const void* sum = input_if_present(a, 2);
  each_group(a, x, [&](int64_t n, int64_t images, const CudaProduct& product, float* windows) {
    lay_out(a, windows, x + n * s.image(), images);
    product.run(stream_of(a), a.input(1) + n * s.pixels() * s.shape.o, windows,
                n == 0 ? sum : a.out[0], a.out[0], nullptr, a.workspace);
  });
}

}  // namespace

const Backend conv2d_cuda{.run = run, .prepare = prepare<ConvKind::forward>};
const Backend conv2d_data_grad_cuda{.run = run_data_grad, .prepare = prepare<ConvKind::data_grad>};
const Backend conv2d_weight_grad_cuda{.run = run_weight_grad,
                                      .prepare = prepare<ConvKind::weight_grad>};

}  // namespace pal
