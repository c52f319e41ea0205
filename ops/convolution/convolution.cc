// Shapes of convolutions with any number of spatial axes, and the calls of their kernels.
#include "ops/convolution/convolution.h"

#include "core/gradient.h"
#include "ops/encodings/codes.h"
#include "ops/kernels/f32_copies.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/tiles.h"
#include "ops/libraries/conv_kernel.h"

namespace pal {
namespace {

bool is_plain_image(const TensorSpec& spec, const ConvGeometry& g) {
  return spec.shape.rank() == g.axes + 2 && is_float(spec.dtype) && !spec.layout &&
         spec.numel() > 0;
}
bool is_coded_image(const TensorSpec& spec, const ConvGeometry& g) {
  return is_codes(spec) && is_plain_image({spec.shape, spec.dtype}, g);
}
bool is_weights(const TensorSpec& spec, const ConvGeometry& g) {
  return spec.shape.rank() == g.axes + 2 && is_float(spec.dtype) && spec.numel() > 0 &&
         (!spec.layout || (g.groups == 1 && spec.dtype == DType::f32));
}

int64_t windows(const ConvAxis& a) {
  const int64_t room = a.in + a.before + a.after - (a.kernel - 1) * a.dilation - 1;
  return room < 0 || a.stride < 1 ? 0 : room / a.stride + 1;
}

// From the shapes of x and w; no output pixels where w does not fit.
ConvShape conv_shape(const Shape& x, const Shape& w, const ConvGeometry& g) {
  ConvShape s{
      .axes = g.axes, .axis = g.axis, .n = x[0], .c = x.back(), .o = w[0], .groups = g.groups};
  for (int i = 0; i < g.axes; ++i) {
    ConvAxis& a = s.axis[size_t(i)];
    a.in = x[i + 1], a.kernel = w[i + 1];
    a.out = windows(a);
  }
  return s;
}

Shape shape_of(int64_t first, const ConvShape& s, int64_t ConvAxis::*extent, int64_t last) {
  Shape out{first};
  for (int i = 0; i < s.axes; ++i) out.append(s.axis[size_t(i)].*extent);
  out.append(last);
  return out;
}
Shape y_of(const ConvShape& s) { return shape_of(s.n, s, &ConvAxis::out, s.o); }

void require_fit(const Shape& x, const Shape& w, const ConvGeometry& g) {
  auto text = [&] { return join_parts(x, " by ", w); };
  require(g.groups > 0 && w[0] % g.groups == 0 && x.back() == w.back() * g.groups, text,
          ": channels differ", (g.groups == 1 ? "" : " (" + std::to_string(g.groups) + " groups)"));
  for (int i = 0; i < g.axes; ++i) {
    const ConvAxis& a = g.axis[size_t(i)];
    const int64_t reach = (w[i + 1] - 1) * a.dilation + 1;
    require(a.stride > 0 && a.dilation > 0 && a.before >= 0 && a.after >= 0 && a.before < reach &&
                a.after < reach,
            text, ": strides and dilations are positive, and padding is less than the kernel");
  }
  for (const ConvShape s = conv_shape(x, w, g); const ConvAxis& a : s.axis) {
    require(a.out > 0 || &a - s.axis.data() >= s.axes, text,
            ": the kernel is larger than the padded image");
  }
}

// The image's and the kernel's shapes as a gradient's operands and attributes give them.
Shape image_of(const Shape& dy, const Shape& w, const ConvGeometry& g) {
  Shape out{dy[0]};
  for (int i = 0; i < g.axes; ++i) out.append(g.extents[size_t(i)]);
  out.append(w.back() * g.groups);
  return out;
}
Shape weights_of(const Shape& x, const Shape& dy, const ConvGeometry& g) {
  Shape out{dy.back()};
  for (int i = 0; i < g.axes; ++i) out.append(g.extents[size_t(i)]);
  out.append(x.back() / std::max<int64_t>(g.groups, 1));
  return out;
}

void require_operands_of(const ConvGeometry& g, const TensorSpec& image, const TensorSpec& other,
                         bool other_is_weights) {
  require((is_plain_image(image, g) || (!other_is_weights && is_coded_image(image, g))) &&
              (other_is_weights ? is_weights(other, g) : is_plain_image(other, g)),
          image, " by ", other, ": needs floats of rank ", g.axes + 2, ", channels last");
  require(image.dtype == other.dtype, image, " by ", other, ": the types differ");
}

}  // namespace

Specs infer_conv(ConvKind kind, SpecSpan in, const ConvGeometry& g) {
  const bool forward = kind == ConvKind::forward, of_data = kind == ConvKind::data_grad;
  const bool of_weights = kind == ConvKind::weight_grad;
  require(in.size() == (of_data ? 2 : 3), forward   ? "takes x, w and bias, which may be absent"
                                          : of_data ? "takes dy and w"
                                                    : "takes x, dy and sum, which may be absent");
  require_operands_of(g, in[0], in[1], !of_weights);
  const Shape x = of_data ? image_of(in[0].shape, in[1].shape, g) : in[0].shape;
  const Shape w = of_weights ? weights_of(in[0].shape, in[1].shape, g) : in[1].shape;
  require_fit(x, w, g);
  const Shape y = y_of(conv_shape(x, w, g));
  if (forward) {
    require(!present(in, 2) || in[2] == TensorSpec{{w[0]}}, "the bias should be f32[", w[0],
            "], is ", in[2]);
    return {{y, in[0].dtype}};
  }
  const Shape& dy = in[of_data ? 0 : 1].shape;
  require(dy == y, dy, ": the gradient should be ", y);
  if (of_data) return {{x, in[0].dtype}};
  const TensorSpec out{w};
  require(!present(in, 2) || in[2] == out, in[2], ": the sum should be ", out);
  return {out};
}

ConvShape conv_shape_of(ConvKind kind, SpecSpan in, const ConvGeometry& g) {
  Shape x = in[0].shape, w = in[1].shape;
  if (kind == ConvKind::data_grad) x = image_of(in[0].shape, in[1].shape, g);
  if (kind == ConvKind::weight_grad) w = weights_of(in[0].shape, in[1].shape, g);
  ConvShape shape = conv_shape(x, w, g);
  shape.bias = kind == ConvKind::forward && present(in, 2);
  shape.accumulate = kind == ConvKind::weight_grad && present(in, 2);
  return shape;
}

// The kernel, and where the f32 copies of its operands and its result lie behind its own scratch.
struct ConvState {
  std::unique_ptr<ConvKernel> kernel;
  F32Copies copies;
};

Prepared prepare_conv(ConvKind kind, const Device& device, SpecSpan in, SpecSpan out,
                      const ConvGeometry& g) {
  TensorSpec w{in[1].shape, DType::f32, in[1].layout};
  if (kind == ConvKind::weight_grad) w = {weights_of(in[0].shape, in[1].shape, g)};
  Specs copied(in.begin(), in.end());  // of which the kernel wants f32
  std::optional<CodedImages> coded;
  if (is_codes(in[0])) coded = {in[0], read_codes}, copied[0].dtype = DType::f32;
  auto kernel = std::make_unique<ConvKernel>(device, kind, conv_shape_of(kind, in, g), w, coded);
  Prepared prepared{.workspace = kernel->workspace()};
  const bool may_prefer = kind != ConvKind::weight_grad && in[1].dtype == DType::f32;
  if (may_prefer && kernel->preferred_weights()) {
    prepared.preferred = {nullptr, kernel->preferred_weights()};
  }
  int64_t& bytes = prepared.workspace;
  ConvState state{std::move(kernel), reserve_f32_copies(copied, out, bytes)};
  prepared.state = std::make_shared<ConvState>(std::move(state));
  return prepared;
}

void run_conv(const KernelArgs& a) {
  const void* extra = present(a.in_spec, 2) ? a.in[2] : nullptr;
  const ConvState& s = *static_cast<const ConvState*>(a.state);
  s.kernel->run(f32_operand(a, 0, s.copies.a), f32_operand(a, 1, s.copies.b),
                f32_result(a, s.copies.out), extra, a.workspace, a.queue);
  store_f32_result(a, s.copies.out);
}

Cost conv_cost(ConvKind kind, SpecSpan in, SpecSpan out) {
  const Shape& w = kind == ConvKind::weight_grad ? out[0].shape : in[1].shape;
  const TensorSpec& y =
      kind == ConvKind::forward ? out[0] : in[kind == ConvKind::data_grad ? 0 : 1];
  double flops = 2 * double(y.numel()) * double(trailing_numel(w, 1));
  if (present(in, 2)) flops += double(out[0].numel());
  return streaming_cost(flops, in, out);
}

}  // namespace pal
