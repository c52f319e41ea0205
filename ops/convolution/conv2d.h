// Convolution of images, and its two gradients.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef conv2d_data_grad_op, conv2d_op, conv2d_weight_grad_op;
[[gnu::weak]] extern const Backend conv2d_data_grad_cuda, conv2d_cuda, conv2d_weight_grad_cuda;

struct Conv2dAttrs {
  int64_t stride_h = 1, stride_w = 1;
  int64_t top = 0, left = 0, bottom = 0, right = 0;  // rows and columns of zeros around the image
  // What a gradient cannot see in its operands: the image's extents for conv2d_data_grad, the
  // kernel's for conv2d_weight_grad. Unread by conv2d.
  int64_t height = 0, width = 0;
  int64_t groups = 1;  // output channel o sees the input channels of its own group alone
  int64_t dilation_h = 1, dilation_w = 1;  // pixels from one tap of the kernel to the next
  auto fields() const {
    return std::tuple{field("stride_h", stride_h),
                      field("stride_w", stride_w),
                      field("top", top),
                      field("left", left),
                      field("bottom", bottom),
                      field("right", right),
                      field("height", height),
                      field("width", width),
                      field("groups", groups),
                      field("dilation_h", dilation_h),
                      field("dilation_w", dilation_w)};
  }
};

std::vector<Example> conv2d_examples();  // what conv2d_relu is tested with, too

// The same stride both ways, and `pad` zeros on each side.
inline Conv2dAttrs conv2d_attrs(int64_t stride, int64_t pad, int64_t groups = 1) {
  return {.stride_h = stride,
          .stride_w = stride,
          .top = pad,
          .left = pad,
          .bottom = pad,
          .right = pad,
          .groups = groups};
}

// x (N, H, W, C), w (O, KH, KW, C / groups), f32 bias (O) -> (N, OH, OW, O), floats like x, with
// OH = (H + top + bottom - dilation_h (KH - 1) - 1) / stride_h + 1. Without groups the kernel would
// like w in a layout of its own. Depthwise: groups = C.
Val conv2d(Val x, Val w, const Conv2dAttrs& attrs = {}, Val bias = {});

// dy (N, OH, OW, O), w (O, KH, KW, C / groups) -> dx (N, attrs.height, attrs.width, C).
Val conv2d_data_grad(Val dy, Val w, const Conv2dAttrs& attrs);

// x (N, H, W, C), dy (N, OH, OW, O) (, sum) -> sum + dw, (O, attrs.height, attrs.width, C /
// groups), plain f32; the result may be written over sum.
Val conv2d_weight_grad(Val x, Val dy, const Conv2dAttrs& attrs, Val sum = {});

}  // namespace pal
