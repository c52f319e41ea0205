// Convolution of films, and its two gradients.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

// conv3d_data_grad: dy (N, OD, OH, OW, O), w (O, KD, KH, KW, C) -> dx (N, attrs.depth,
// attrs.height, attrs.width, C). conv3d_weight_grad: x (N, D, H, W, C), dy (N, OD, OH, OW, O)
// (, sum) -> sum + dw, (O, attrs.depth, attrs.height, attrs.width, C), plain f32; the result may be
// written over sum.
extern const OpDef conv3d_data_grad_op, conv3d_op, conv3d_weight_grad_op;
[[gnu::weak]] extern const Backend conv3d_data_grad_cuda, conv3d_cuda, conv3d_weight_grad_cuda;

struct Conv3dAttrs {
  int64_t stride_d = 1, stride_h = 1, stride_w = 1;
  int64_t pad_d = 0, pad_h = 0, pad_w = 0;  // zeros on both sides of frames, rows and columns
  // What a gradient cannot see in its operands: the film's extents for conv3d_data_grad, the
  // kernel's for conv3d_weight_grad. Unread by conv3d.
  int64_t depth = 0, height = 0, width = 0;
  auto fields() const {
    return std::tuple{
        field("stride_d", stride_d), field("stride_h", stride_h), field("stride_w", stride_w),
        field("pad_d", pad_d),       field("pad_h", pad_h),       field("pad_w", pad_w),
        field("depth", depth),       field("height", height),     field("width", width)};
  }
};

std::vector<Example> conv3d_examples();  // what conv3d_relu is tested with, too

// The same stride every way, and `pad` zeros on each side.
inline Conv3dAttrs conv3d_attrs(int64_t stride, int64_t pad) {
  return {stride, stride, stride, pad, pad, pad};
}

// x (N, D, H, W, C), w (O, KD, KH, KW, C), f32 bias (O) -> (N, OD, OH, OW, O), floats like x, with
// OD = (D + 2 pad_d - KD) / stride_d + 1. The kernel would like w in a layout of its own.
Val conv3d(Val x, Val w, const Conv3dAttrs& attrs = {}, Val bias = {});

}  // namespace pal
