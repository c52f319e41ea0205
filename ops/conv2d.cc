// y[n,i,j,o] = sum over k,l,c of x[n, i·stride_h + k − top, j·stride_w + l − left, c] w[o,k,l,c] +
// bias[o]. dx is the sum over the windows that an input pixel lies in, dw the sum over all windows,
// and dbias the sum over all pixels of dy.
#include "ops/conv2d.h"

#include "ops/conv2d_kernel.h"
#include "ops/cuda.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace pal {
namespace {

bool present(SpecSpan in, size_t i) { return i < in.size() && in[i].shape.rank() > 0; }

bool is_plain_image(const TensorSpec& spec) {
  return spec.shape.rank() == 4 && spec.dtype == DType::f32 && !spec.layout && spec.numel() > 0;
}
bool is_weights(const TensorSpec& spec) {
  return spec.shape.rank() == 4 && spec.dtype == DType::f32 && spec.numel() > 0;
}

int64_t windows(int64_t extent, int64_t before, int64_t after, int64_t kernel, int64_t stride) {
  const int64_t room = extent + before + after - kernel;
  return room < 0 || stride < 1 ? 0 : room / stride + 1;
}

// From the shapes of x (N, H, W, C) and w (O, KH, KW, C); no output pixels where w does not fit.
ConvShape conv_shape(const Shape& x, const Shape& w, const Conv2dAttrs& s) {
  return {.n = x[0],
          .h = x[1],
          .w = x[2],
          .c = x[3],
          .oh = windows(x[1], s.top, s.bottom, w[1], s.stride_h),
          .ow = windows(x[2], s.left, s.right, w[2], s.stride_w),
          .o = w[0],
          .kh = w[1],
          .kw = w[2],
          .stride_h = s.stride_h,
          .stride_w = s.stride_w,
          .top = s.top,
          .left = s.left,
          .bottom = s.bottom,
          .right = s.right};
}

void require_fit(const char* op, const Shape& x, const Shape& w, const Conv2dAttrs& s) {
  const std::string text = to_string(x) + " by " + to_string(w);
  require(x[3] == w[3], op, text + ": channels differ");
  require(s.stride_h > 0 && s.stride_w > 0 && s.top >= 0 && s.left >= 0 && s.bottom >= 0 &&
              s.right >= 0 && s.top < w[1] && s.bottom < w[1] && s.left < w[2] && s.right < w[2],
          op, text + ": strides are positive, and padding is less than the kernel");
  const ConvShape c = conv_shape(x, w, s);
  require(c.oh > 0 && c.ow > 0, op, text + ": the kernel is larger than the padded image");
}

Specs infer_forward(SpecSpan in, const Attrs& attributes) {
  auto& attrs = attributes.as<Conv2dAttrs>();
  require(in.size() == 3, "conv2d", "takes x, w and bias, which may be absent");
  require(is_plain_image(in[0]) && is_weights(in[1]), "conv2d",
          to_string(in[0]) + " by " + to_string(in[1]) +
              ": needs f32 images (N,H,W,C) and (O,KH,KW,C)");
  require_fit("conv2d", in[0].shape, in[1].shape, attrs);
  const ConvShape s = conv_shape(in[0].shape, in[1].shape, attrs);
  require(!present(in, 2) || in[2] == TensorSpec{{s.o}}, "conv2d",
          "the bias should be f32[" + std::to_string(s.o) + "], is " + to_string(in[2]));
  return {{{s.n, s.oh, s.ow, s.o}}};
}

// The image's and the kernel's shapes as a gradient's operands and attributes give them.
Shape image_of(const Shape& dy, const Shape& w, const Conv2dAttrs& s) {
  return {dy[0], s.height, s.width, w[3]};
}
Shape weights_of(const Shape& x, const Shape& dy, const Conv2dAttrs& s) {
  return {dy[3], s.height, s.width, x[3]};
}

void require_windows(const char* op, const Shape& dy, const ConvShape& s) {
  require(dy == Shape{s.n, s.oh, s.ow, s.o}, op,
          to_string(dy) + ": the gradient should be " + to_string(Shape{s.n, s.oh, s.ow, s.o}));
}

Specs infer_data_grad(SpecSpan in, const Attrs& attributes) {
  auto& attrs = attributes.as<Conv2dAttrs>();
  require(in.size() == 2, "conv2d_data_grad", "takes dy and w");
  require(is_plain_image(in[0]) && is_weights(in[1]), "conv2d_data_grad",
          to_string(in[0]) + " by " + to_string(in[1]) + ": needs f32 (N,OH,OW,O) and (O,KH,KW,C)");
  const Shape image = image_of(in[0].shape, in[1].shape, attrs);
  require_fit("conv2d_data_grad", image, in[1].shape, attrs);
  require_windows("conv2d_data_grad", in[0].shape, conv_shape(image, in[1].shape, attrs));
  return {{image}};
}

Specs infer_weight_grad(SpecSpan in, const Attrs& attributes) {
  auto& attrs = attributes.as<Conv2dAttrs>();
  require(in.size() == 3, "conv2d_weight_grad", "takes x, dy and sum, which may be absent");
  require(is_plain_image(in[0]) && is_plain_image(in[1]), "conv2d_weight_grad",
          to_string(in[0]) + ", " + to_string(in[1]) + ": needs f32 (N,H,W,C) and (N,OH,OW,O)");
  const Shape weights = weights_of(in[0].shape, in[1].shape, attrs);
  require_fit("conv2d_weight_grad", in[0].shape, weights, attrs);
  require_windows("conv2d_weight_grad", in[1].shape, conv_shape(in[0].shape, weights, attrs));
  const TensorSpec out{weights};
  require(!present(in, 2) || in[2] == out, "conv2d_weight_grad",
          to_string(in[2]) + ": the sum should be " + to_string(out));
  return {out};
}

template <ConvKind kind>
Prepared prepare(const Device& device, SpecSpan in, SpecSpan, const Attrs& attributes) {
  const ConvShape shape = conv_shape(kind, in, attributes.as<Conv2dAttrs>());
  const TensorSpec w =
      kind == ConvKind::weight_grad ? TensorSpec{{shape.o, shape.kh, shape.kw, shape.c}} : in[1];
  auto kernel = std::make_shared<ConvKernel>(device, kind, shape, w);
  Prepared prepared{.workspace = kernel->workspace()};
  if (kind != ConvKind::weight_grad && kernel->preferred_weights()) {
    prepared.preferred = {nullptr, kernel->preferred_weights()};
  }
  prepared.state = std::move(kernel);
  return prepared;
}

void run(const KernelArgs& a) {
  if (!a.out[0]) return;
  const void* extra = present(a.in_spec, 2) ? a.in[2] : nullptr;
  static_cast<const ConvKernel*>(a.state)->run(a.in[0], a.in[1], a.out[0], extra, a.workspace,
                                               a.queue);
}

void gradient(GradientArgs& g) {
  Conv2dAttrs attrs = g.attrs<Conv2dAttrs>();
  const Val x = g.in(0), w = g.in(1), dy = g.dy();
  if (g.wants(0)) {
    attrs.height = x.shape()[1], attrs.width = x.shape()[2];
    g.give(0, conv2d_data_grad(dy, w, attrs));
  }
  if (g.wants(1)) {
    attrs.height = w.shape()[1], attrs.width = w.shape()[2];
    const Val dw = conv2d_weight_grad(x, dy, attrs, g.sum(1));
    if (g.sum(1)) {
      g.give_total(1, dw);
    } else {
      g.give(1, dw);
    }
  }
  if (g.wants(2)) g.give_total(2, sum_rows(dy, g.sum(2)));
}

// Products with the zeros around the image count: the kernels that matter do not skip them.
template <ConvKind kind>
Cost cost(SpecSpan in, SpecSpan out, const Attrs&) {
  const Shape& w = kind == ConvKind::weight_grad ? out[0].shape : in[1].shape;
  const TensorSpec& y =
      kind == ConvKind::forward ? out[0] : in[kind == ConvKind::data_grad ? 0 : 1];
  Cost cost{.flops = 2 * double(y.numel()) * double(w[1] * w[2] * w[3])};
  if (present(in, 2)) cost.flops += double(out[0].numel());
  for (size_t i = 0; i < in.size(); ++i) cost.bytes += present(in, i) ? double(in[i].bytes()) : 0;
  cost.bytes += double(out[0].bytes());
  return cost;
}

}  // namespace

ConvShape conv_shape(ConvKind kind, SpecSpan in, const Conv2dAttrs& attrs) {
  Shape x = in[0].shape, w = in[1].shape;
  if (kind == ConvKind::data_grad) x = image_of(x, w, attrs);
  if (kind == ConvKind::weight_grad) w = weights_of(x, w, attrs);
  ConvShape shape = conv_shape(x, w, attrs);
  shape.bias = kind == ConvKind::forward && present(in, 2);
  shape.accumulate = kind == ConvKind::weight_grad && present(in, 2);
  return shape;
}

const OpDef conv2d_op{
    .name = "conv2d",
    .formula = "x * w + bias",
    .infer = infer_forward,
    .gradient = gradient,
    .optional_from = 2,
    .cost = cost<ConvKind::forward>,
    .cpu = {.run = run, .prepare = prepare<ConvKind::forward>},
    .cuda = &conv2d_cuda,
    .examples =
        [] {
          return std::vector<Example>{
              {.operands = {example({2, 5, 6, 3}), example({4, 3, 3, 3}), example({4})},
               .attrs = conv2d_attrs(1, 1)},
              {.operands = {example({3, 7, 8, 5}), example({9, 3, 2, 5}), absent_example()},
               .attrs = Conv2dAttrs{.stride_h = 2, .stride_w = 3, .top = 1, .right = 1}},
              {.operands = {example({1, 4, 4, 17}), example({18, 1, 1, 17}), absent_example()},
               .attrs = Conv2dAttrs{}},
              {.operands = {example({19, 9, 9, 16}), example({32, 3, 3, 16}), example({32})},
               .attrs = conv2d_attrs(2, 1)},
          };
        },
};

const OpDef conv2d_data_grad_op{
    .name = "conv2d_data_grad",
    .formula = "the gradient of x in x * w",
    .infer = infer_data_grad,
    .cost = cost<ConvKind::data_grad>,
    .cpu = {.run = run, .prepare = prepare<ConvKind::data_grad>},
    .cuda = &conv2d_data_grad_cuda,
    .examples =
        [] {
          auto a = conv2d_attrs(1, 1), b = conv2d_attrs(2, 1);
          a.height = 5, a.width = 6, b.height = b.width = 9;
          return std::vector<Example>{
              {.operands = {example({2, 5, 6, 4}), example({4, 3, 3, 3})}, .attrs = a},
              {.operands = {example({3, 3, 2, 9}), example({9, 3, 2, 5})},
               .attrs = Conv2dAttrs{.stride_h = 2,
                                    .stride_w = 4,
                                    .top = 1,
                                    .right = 1,
                                    .height = 6,
                                    .width = 6}},
              {.operands = {example({19, 5, 5, 32}), example({32, 3, 3, 16})}, .attrs = b},
          };
        },
};

const OpDef conv2d_weight_grad_op{
    .name = "conv2d_weight_grad",
    .formula = "the gradient of w in x * w, added to the sum",
    .infer = infer_weight_grad,
    .optional_from = 2,
    .shares = {{0, 2}},
    .cost = cost<ConvKind::weight_grad>,
    .cpu = {.run = run, .prepare = prepare<ConvKind::weight_grad>},
    .cuda = &conv2d_weight_grad_cuda,
    .examples =
        [] {
          auto a = conv2d_attrs(1, 1), b = conv2d_attrs(2, 1);
          a.height = a.width = b.height = b.width = 3;
          return std::vector<Example>{
              {.operands = {example({2, 5, 6, 3}), example({2, 5, 6, 4}), absent_example()},
               .attrs = a},
              {.operands = {example({3, 5, 6, 17}), example({3, 5, 6, 4}), example({4, 3, 3, 17})},
               .attrs = a},
              {.operands = {example({19, 9, 9, 16}), example({19, 5, 5, 32}),
                            example({32, 3, 3, 16})},
               .attrs = b},
          };
        },
};

Val conv2d(Val x, Val w, const Conv2dAttrs& attrs, Val bias) {
  return x.builder->emit1(conv2d_op, {x, w, bias}, attrs);
}
Val conv2d_data_grad(Val dy, Val w, const Conv2dAttrs& attrs) {
  return dy.builder->emit1(conv2d_data_grad_op, {dy, w}, attrs);
}
Val conv2d_weight_grad(Val x, Val dy, const Conv2dAttrs& attrs, Val sum) {
  return x.builder->emit1(conv2d_weight_grad_op, {x, dy, sum}, attrs);
}

}  // namespace pal
