// Convolutions and their gradients: cuDNN's (ops/libraries/cudnn_convolution.h), or else
// cuBLASLt's products with windows laid out in the workspace, a stripe of output pixels at a time
// (ops/libraries/conv_stripes.h). Stripes come one after the other, and an input pixel's gradient
// is the sum over its windows in their order, so the bits are always the same. Of operands in 16
// bits all sums are f32 as well, in the workspace until they are complete.
#include "ops/convolution/conv_ways.h"
#include "ops/convolution/convolution.h"
#include "ops/convolution/cuda_windows.h"
#include "ops/elementwise/activations.h"
#include "ops/kernels/operands.h"

namespace pal {
namespace {

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
  const std::byte* sums = a.workspace + static_cast<const CudaConvState*>(a.state)->sums_at;
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
void run_cudnn(const KernelArgs& a, const CudaConvState& s) {
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
  const CudaConvState& s = *static_cast<const CudaConvState*>(a.state);
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

void lay_if_apart(const KernelArgs& a, void* windows, const Stripe& stripe) {
  const ConvStripes& cut = static_cast<const CudaConvState*>(a.state)->stripes;
  if (!cut.in_place) lay_windows(a, cut, stripe, windows);
}

void forward_stripes(const KernelArgs& a, const ConvStripes& cut) {
  const int64_t channels = cut.groups * cut.o;
  const float* bias = input_if_present<float>(a, 2);
  const bool laid = bias && cut.groups > 1 && !cut.f32_y;
  if (laid) lay_bias(a, cut);
  void* sums = a.workspace + static_cast<const CudaConvState*>(a.state)->sums_at;
  each_stripe(a, a.in[0], [&](int64_t, const Stripe& s, const CudaProduct& product, void* windows) {
    lay_if_apart(a, windows, s);
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
      cut.by_image
          ? floats(a.workspace + static_cast<const CudaConvState*>(a.state)->sums_at, cut.c)
          : stored(a.out[0], a.out_spec[0], cut.c);
  each_stripe(a, a.out[0],
              [&](int64_t line, const Stripe& s, const CudaProduct& product, void* windows) {
                const void* dy = element(a.in[0], cut.type, s.first * cut.groups * cut.o);
                product.run(stream_of(a), dy, a.in[1], nullptr, windows, nullptr, a.workspace);
                if (cut.in_place) return;
                const int64_t first = line / image_lines, end_line = line + s.pixels / cut.pixels;
                const int64_t images = blocks_of(end_line, image_lines) - first;
                const bool onto = add && !(cut.by_image && line % image_lines == 0);
                sum_windows(a, cut, s, windows, dx, cut.by_image ? 0 : first, first, images, onto);
                if (cut.by_image && end_line % image_lines == 0) {
                  store_sums(a, element(a.out[0], cut.type, first * w.pixels_in() * channels),
                             cut.type, nullptr, w.pixels_in(), channels);
                }
              });
}

// dw = the sums, without the columns behind its rows, and what is there already.
__global__ void take_columns_kernel(float* dw, const float* so_far, const float* sums, int64_t rows,
                                    int64_t columns, int64_t row) {
  const int64_t i = thread_number();
  if (i >= rows * columns) return;
  const int64_t r = divide(i, columns);
  const float sum = sums[r * row + i - r * columns];
  dw[i] = so_far ? so_far[i] + sum : sum;
}

void weight_grad_stripes(const KernelArgs& a, const ConvStripes& cut) {
  const auto* before = input_if_present<float>(a, 2);
  const bool padded = cut.padded();
  void* const dw =
      padded ? a.workspace + static_cast<const CudaConvState*>(a.state)->sums_at : a.out[0];
  const void* so_far = padded ? nullptr : before;
  each_stripe(a, a.in[0], [&](int64_t, const Stripe& s, const CudaProduct& product, void* windows) {
    lay_if_apart(a, windows, s);
    const void* dy = element(a.in[1], cut.type, s.first * cut.groups * cut.o);
    product.run(stream_of(a), dy, windows, so_far, dw, nullptr, a.workspace);
    so_far = dw;
  });
  if (!padded) return;
  const int64_t columns = cut.taps * cut.c;
  launch(take_columns_kernel, blocks_of(cut.o * columns, kThreads), a, a.output(0), before,
         static_cast<const float*>(dw), cut.o, columns, cut.row);
}

}  // namespace

Prepared prepare_conv_cuda(ConvKind kind, const Device& device, SpecSpan in, SpecSpan out,
                           const ConvGeometry& g) {
  const ConvShape shape = conv_shape_of(kind, in, g);
  return prepare_conv_ways(kind, device, shape, in, out[0], false, run_conv_cuda);
}
Prepared prepare_conv_relu_cuda(const Device& device, SpecSpan in, SpecSpan out,
                                const ConvGeometry& g) {
  constexpr ConvKind kind = ConvKind::forward;
  const ConvShape shape = conv_shape_of(kind, in, g);
  return prepare_conv_ways(kind, device, shape, in, out[0], true, run_conv_cuda);
}

void run_conv_cuda(const KernelArgs& a) {
  const CudaConvState& s = *static_cast<const CudaConvState*>(a.state);
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
  const CudaConvState& s = *static_cast<const CudaConvState*>(a.state);
  if (s.cudnn && s.cudnn->does_relu()) return;
  launch_map<1>(with_operands(a, a.out, a.out_spec), Relu{});
}

}  // namespace pal
