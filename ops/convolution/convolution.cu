// Convolutions and their gradients: cuDNN's (ops/libraries/cudnn_convolution.h), or else
// cuBLASLt's products with windows laid out in the workspace, a stripe of output pixels at a time
// (ops/libraries/conv_stripes.h). Stripes come one after the other, and an input pixel's gradient
// is the sum over its windows in their order, so the bits are always the same. Of operands in 16
// bits all sums are f32 as well, in the workspace until they are complete.
#include <algorithm>

#include "ops/convolution/convolution.h"
#include "ops/convolution/cuda_windows.h"
#include "ops/elementwise/activations.h"
#include "ops/kernels/operands.h"
#include "ops/libraries/cuda_product.h"
#include "ops/libraries/cudnn_convolution.h"

namespace pal {
namespace {

// Of the windows that are there at a time, and of what cuDNN may ask for: this part of the device's
// memory, and so much at most.
constexpr int64_t kPartOfMemory = 256;
constexpr int64_t kMostWindows = int64_t(64) << 20, kMostCudnn = int64_t(512) << 20;

struct ConvState {
  ConvKind kind;
  ConvStripes stripes;
  bool depthwise;
  std::unique_ptr<CudnnConvolution> cudnn;     // if there, does it all
  bool adds_bias = false;                      // the bias too
  std::unique_ptr<CudaProduct> product, last;  // of a stripe, and of the lines that are left over
  int64_t windows_at = 0, sums_at = 0;
};

// in: image and weights, or the two images.
Prepared prepare_shape(ConvKind kind, const Device& device, const ConvShape& shape, SpecSpan in,
                       const TensorSpec& out, bool relu) {
  const DType type = in[0].dtype, result = out.dtype;
  auto state = std::make_shared<ConvState>();
  ConvState& s = *state;
  s.kind = kind;
  const int64_t part = cuda_of(device).total_bytes() / kPartOfMemory;
  const int64_t most = std::min(kMostCudnn, part);
  s.stripes = cut_into_stripes(shape, std::min(kMostWindows, part), type);
  const ConvStripes& cut = s.stripes;
  s.depthwise = cut.groups > 1 && cut.c == 1;
  if (s.depthwise) return {.state = std::move(state), .workspace = depthwise_workspace(kind, cut)};
  // Parts begin with rows of theirs.
  const int64_t least = std::min({row_boundary(in[0]), row_boundary(in[1]), row_boundary(out)});
  CudnnBoundaries on{row_boundary(in[0]), row_boundary(in[1]), row_boundary(out)};
  if (present(in, 2)) on.bias = row_boundary(in[2]);
  std::string by, why_not;
  const auto with_reason = [&](const std::string& text) {
    return why_not.empty() ? text : text + " (" + why_not + ")";
  };
  if (cudnn_convolution_graph) {
    s.cudnn = cudnn_convolution_graph(device,
                                      {.kind = kind,
                                       .shape = shape,
                                       .type = type,
                                       .result = result,
                                       .relu = relu,
                                       .boundaries = on,
                                       .most_workspace = most},
                                      &why_not);
    if (s.cudnn) {
      s.adds_bias = shape.bias;
      const bool apart = relu && !s.cudnn->does_relu();
      by = apart ? with_reason("cuDNN's graph, relu by a kernel") : "cuDNN's graph";
    }
  }
  // The older interface is not told where operands begin, and adds in another order where that is
  // not on 16 bytes (9.19 on an H100). Where their rows keep that, all do.
  if (!s.cudnn && cudnn_convolution && type == result && least == kWidestBoundary) {
    s.cudnn = cudnn_convolution(device, kind, shape, type, most);
    by = with_reason("cuDNN");
  }
  if (s.cudnn) {
    const int64_t bytes = s.cudnn->workspace();
    return {.state = std::move(state), .workspace = bytes, .by = std::move(by)};
  }
  const ProductBoundaries boundaries{.a = least, .b = least, .c = least, .bias = least};
  auto product_of = [&](int64_t lines) {
    ProductShape p = cut.product(kind, lines);
    p.bias = shape.bias && cut.groups == 1 && !cut.f32_y;
    auto product = std::make_unique<CudaProduct>(device, "convolution", p, boundaries);
    s.windows_at = std::max(s.windows_at, product->workspace());
    return product;
  };
  s.product = product_of(cut.stripe);
  if (const int64_t rest = cut.last_lines()) s.last = product_of(rest);
  const TensorSpec windows{{cut.window_floats()}, cut.window_type(kind)};
  s.sums_at = s.windows_at + align_up(windows.bytes());
  const int64_t bytes = s.sums_at + cut.sum_floats(kind) * int64_t(sizeof(float));
  return {.state = std::move(state), .workspace = bytes, .by = with_reason("windows, cuBLASLt")};
}

// A stripe's windows as they lie in memory. A run is what lies in one piece in the image too: a row
// of taps over all channels, or, where taps are apart or groups divide them, one tap's channels.
struct Stripe {
  int64_t first, pixels;  // output pixels
  bool joined;            // runs are rows of taps
  int64_t runs, run;      // of a window; elements of one

  Stripe(const Windows& w, int64_t first_pixel, int64_t pixel_count)
      : first(first_pixel),
        pixels(pixel_count),
        joined(w.axis[2].dilation == 1 && w.groups == 1),
        runs(joined ? int64_t(w.axis[0].kernel) * w.axis[1].kernel : w.taps()),
        run(joined ? w.axis[2].kernel * w.c : w.c) {}
};

// windows[group, pixel, tap, c] = x there, 0 outside; eight elements of a run a thread.
__global__ void lay_windows_kernel(Stored windows, Stored x, Windows w, Stripe s) {
  const auto [row, e, at, n] = row_group(w.groups * s.pixels * s.runs, s.run);
  if (n == 0) return;
  const int64_t window = divide(row, s.runs);
  const int64_t group = divide(window, s.pixels);
  const Pixel p = output_pixel(w, s.first + window - group * s.pixels);
  int tap = int(row - window * s.runs), k2 = 0;
  if (!s.joined) k2 = tap % w.axis[2].kernel, tap /= w.axis[2].kernel;
  const int k1 = tap % w.axis[1].kernel, k0 = tap / w.axis[1].kernel;
  const int h = w.axis[0].place(p.at[0], k0), i = w.axis[1].place(p.at[1], k1);
  const int j = w.axis[2].place(p.at[2], k2);
  float v[kGroup] = {};
  if (w.axis[0].inside(h) && w.axis[1].inside(i) && (s.joined || w.axis[2].inside(j))) {
    const int64_t channels = w.groups * w.c, width = w.axis[2].in * channels;
    const int64_t line = w.pixel_in(p.n, h, i, 0) * channels;
    const int64_t from = j * channels + group * w.c + e;  // in the line, which it may stick out of
    if (from >= 0 && from + n <= width) {
      load8(x, line + from, n, v);
    } else {
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        if (k < n && from + k >= 0 && from + k < width) v[k] = load1(x, line + from + k);
      }
    }
  }
  store8(windows, at, n, v);
}

// dx of a pixel: the sum over the windows of this stripe that it lies in, in their order, onto the
// earlier stripes' where an image has several (`add`). Eight channels of a group a thread. `to` is
// the first image's place in dx.
__global__ void sum_windows_kernel(Stored dx, int64_t to, Stored windows, Windows w, Stripe s,
                                   int64_t first_image, int64_t images, bool add) {
  const RowGroup g = row_group(images * w.pixels_in() * w.groups, w.c);
  if (g.n == 0) return;
  const int64_t pixel = divide(g.row, w.groups), group = g.row - pixel * w.groups;
  const int64_t at = to * w.pixels_in() * w.groups * w.c + g.at;
  Pixel p = input_pixel(w, pixel);
  p.n += first_image;
  float sum[kGroup] = {}, v[kGroup];
  bool any = !add;
  each_window(w, p, [&](int64_t tap, int64_t output) {
    const int64_t window = output - s.first;
    if (window < 0 || window >= s.pixels) return;
    const int64_t from = ((group * s.pixels + window) * w.taps() + tap) * w.c + g.column;
    load8(windows, from, g.n, v);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) sum[k] += v[k];
    any = true;
  });
  if (!any) return;
  if (add) {
    load8(dx, at, g.n, v);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) sum[k] = v[k] + sum[k];
  }
  store8(dx, at, g.n, sum);
}

// y = the bias in every pixel, for products that cannot add it.
__global__ void lay_bias_kernel(Stored y, Stored bias, int64_t pixels, int64_t channels) {
  const auto [row, c, at, n] = row_group(pixels, channels);
  if (n == 0) return;
  float v[kGroup];
  load8(bias, c, n, v);
  store8(y, at, n, v);
}

// y = the sums, with the bias where there is one, rounded to y's type.
__global__ void store_sums_kernel(Stored y, Stored sums, Stored bias, int64_t pixels,
                                  int64_t channels) {
  const auto [row, c, at, n] = row_group(pixels, channels);
  if (n == 0) return;
  float v[kGroup], b[kGroup] = {};
  load8(sums, at, n, v);
  if (bias.data) load8(bias, c, n, b);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) v[k] = v[k] + b[k];
  store8(y, at, n, v);
}
void store_sums(const KernelArgs& a, void* y, DType type, const float* bias, int64_t pixels,
                int64_t channels) {
  const std::byte* sums = a.workspace + static_cast<const ConvState*>(a.state)->sums_at;
  launch(store_sums_kernel, grid_of_groups(pixels * groups_of(channels)), a,
         stored(y, {{}, type}, channels), floats(sums, channels), floats(bias, channels), pixels,
         channels);
}

// Where that element of a tensor lies.
void* element(const void* data, DType type, int64_t i) {
  return const_cast<std::byte*>(static_cast<const std::byte*>(data)) + i * bits(type) / 8;
}

void lay_bias(const KernelArgs& a, const ConvStripes& cut) {
  const int64_t pixels = cut.lines * cut.pixels, channels = cut.groups * cut.o;
  launch(lay_bias_kernel, grid_of_groups(pixels * groups_of(channels)), a,
         stored(a.out[0], {{}, a.out_spec[0].dtype}, channels),
         stored(a.in[2], {{}, a.in_spec[2].dtype}, channels), pixels, channels);
}

// A bias is laid out first, as a sum that the result is added to, unless the library takes it.
void run_cudnn(const KernelArgs& a, const ConvState& s) {
  const void* extra = input_if_present(a, 2);
  CudnnOperands operands{.a = a.in[0], .b = a.in[1], .out = a.out[0]};
  if (s.adds_bias) {
    operands.bias = extra;
  } else if (extra) {
    if (s.kind == ConvKind::forward) lay_bias(a, s.stripes);
    if (s.kind == ConvKind::weight_grad) copy_async(a, a.out[0], extra, a.out_spec[0].bytes());
    operands.add = true;
  }
  s.cudnn->run(stream_of(a), operands, a.workspace);
}

// Calls f(first line, stripe, product, windows): where they are or shall be, which is in the image
// itself if that is how they lie.
template <class F> void each_stripe(const KernelArgs& a, const void* image, F f) {
  const ConvState& s = *static_cast<const ConvState*>(a.state);
  const ConvStripes& cut = s.stripes;
  const Windows w(cut);
  for (int64_t line = 0, lines; line < cut.lines; line += lines) {
    lines = cut.lines_from(line);
    const Stripe stripe(w, line * cut.pixels, lines * cut.pixels);
    void* windows = cut.in_place ? element(image, cut.type, stripe.first * cut.groups * cut.c)
                                 : a.workspace + s.windows_at;
    f(line, stripe, lines == cut.stripe ? *s.product : *s.last, windows);
  }
}

void lay_windows(const KernelArgs& a, void* windows, const Stripe& stripe) {
  const ConvStripes& cut = static_cast<const ConvState*>(a.state)->stripes;
  if (cut.in_place) return;
  launch(lay_windows_kernel,
         grid_of_groups(cut.groups * stripe.pixels * stripe.runs * groups_of(stripe.run)), a,
         stored(windows, {{}, cut.type}, cut.c), stored(a.in[0], a.in_spec[0], cut.c), Windows(cut),
         stripe);
}

void forward_stripes(const KernelArgs& a, const ConvStripes& cut) {
  const int64_t channels = cut.groups * cut.o;
  const float* bias = input_if_present<float>(a, 2);
  const bool laid = bias && cut.groups > 1 && !cut.f32_y;
  if (laid) lay_bias(a, cut);
  void* sums = a.workspace + static_cast<const ConvState*>(a.state)->sums_at;
  each_stripe(a, a.in[0], [&](int64_t, const Stripe& s, const CudaProduct& product, void* windows) {
    lay_windows(a, windows, s);
    void* y = element(a.out[0], cut.type, s.first * channels);
    if (cut.f32_y) {
      product.run(stream_of(a), windows, a.in[1], nullptr, sums, nullptr, a.workspace);
      return store_sums(a, y, cut.type, bias, s.pixels, channels);
    }
    product.run(stream_of(a), windows, a.in[1], laid ? y : nullptr, y, laid ? nullptr : bias,
                a.workspace);
  });
}

void data_grad_stripes(const KernelArgs& a, const ConvStripes& cut) {
  const bool add = !cut.in_place && !cut.whole_images();
  if (add && !cut.by_image) zero_async(a, a.out[0], a.out_spec[0].bytes());
  const Windows w(cut);
  const int64_t image_lines = cut.axis[0].out, channels = cut.groups * cut.c;
  const Stored dx =
      cut.by_image ? floats(a.workspace + static_cast<const ConvState*>(a.state)->sums_at, cut.c)
                   : stored(a.out[0], a.out_spec[0], cut.c);
  each_stripe(a, a.out[0],
              [&](int64_t line, const Stripe& s, const CudaProduct& product, void* windows) {
                const void* dy = element(a.in[0], cut.type, s.first * cut.groups * cut.o);
                product.run(stream_of(a), dy, a.in[1], nullptr, windows, nullptr, a.workspace);
                if (cut.in_place) return;
                const int64_t first = line / image_lines, end_line = line + s.pixels / cut.pixels;
                const int64_t images = blocks_of(end_line, image_lines) - first;
                const int64_t places = images * w.pixels_in() * cut.groups;
                const bool onto = add && !(cut.by_image && line % image_lines == 0);
                launch(sum_windows_kernel, grid_of_groups(places * groups_of(cut.c)), a, dx,
                       cut.by_image ? 0 : first, floats(windows, cut.c), w, s, first, images, onto);
                if (cut.by_image && end_line % image_lines == 0) {
                  store_sums(a, element(a.out[0], cut.type, first * w.pixels_in() * channels),
                             cut.type, nullptr, w.pixels_in(), channels);
                }
              });
}

void weight_grad_stripes(const KernelArgs& a, const ConvStripes& cut) {
  const void* so_far = input_if_present(a, 2);
  each_stripe(a, a.in[0], [&](int64_t, const Stripe& s, const CudaProduct& product, void* windows) {
    lay_windows(a, windows, s);
    const void* dy = element(a.in[1], cut.type, s.first * cut.groups * cut.o);
    product.run(stream_of(a), dy, windows, so_far, a.out[0], nullptr, a.workspace);
    so_far = a.out[0];
  });
}

}  // namespace

Prepared prepare_conv_cuda(ConvKind kind, const Device& device, SpecSpan in, SpecSpan out,
                           const ConvGeometry& g) {
  return prepare_shape(kind, device, conv_shape_of(kind, in, g), in, out[0], false);
}
Prepared prepare_conv_relu_cuda(const Device& device, SpecSpan in, SpecSpan out,
                                const ConvGeometry& g) {
  constexpr ConvKind kind = ConvKind::forward;
  return prepare_shape(kind, device, conv_shape_of(kind, in, g), in, out[0], true);
}

void run_conv_cuda(const KernelArgs& a) {
  const ConvState& s = *static_cast<const ConvState*>(a.state);
  if (s.depthwise) return run_depthwise(s.kind, s.stripes, a);
  if (s.cudnn) return run_cudnn(a, s);
  switch (s.kind) {
    case ConvKind::forward: return forward_stripes(a, s.stripes);
    case ConvKind::data_grad: return data_grad_stripes(a, s.stripes);
    case ConvKind::weight_grad: return weight_grad_stripes(a, s.stripes);
  }
}

void run_conv_relu_cuda(const KernelArgs& a) {
  run_conv_cuda(a);
  const ConvState& s = *static_cast<const ConvState*>(a.state);
  if (s.cudnn && s.cudnn->does_relu()) return;
  launch_map<1>(with_operands(a, a.out, a.out_spec), Relu{});
}

}  // namespace pal
