// Max pooling of images, which remembers where each maximum was.
#pragma once
#include "core/op.h"
#include "core/rewrite.h"
#include "core/val.h"

namespace pal {

extern const OpDef max_pool_grad_op, max_pool_op;
[[gnu::weak]] extern const Backend max_pool_grad_cuda, max_pool_cuda;

// relu's gradient behind max pooling's, of the pool's operand: the map then says where a maximum
// was one that relu's gradient shuts out, which has nothing left to do.
extern const Rewrite max_pool_relu_rewrite;

struct MaxPoolAttrs {
  int64_t kernel_h = 2, kernel_w = 2, stride_h = 2, stride_w = 2;
  int64_t top = 0, left = 0, bottom = 0, right = 0;  // around the image; never a maximum
  int64_t height = 0, width = 0;                     // of the image: read by max_pool_grad only
  // A maximum that is no finite number above zero is nowhere: kNowhere in the map, so that no
  // gradient comes back to it. For windows whose map is u4.
  bool positive = false;
  auto fields() const {
    return std::tuple{
        field("kernel_h", kernel_h), field("kernel_w", kernel_w), field("stride_h", stride_h),
        field("stride_w", stride_w), field("top", top),           field("left", left),
        field("bottom", bottom),     field("right", right),       field("height", height),
        field("width", width),       field("positive", positive)};
  }
};
constexpr int kNowhere = 15;

// Of the map: windows of at most 15 pixels leave one of 16 codes for kNowhere.
inline DType map_type(const MaxPoolAttrs& attrs) {
  return attrs.kernel_h * attrs.kernel_w <= kNowhere ? DType::u4 : DType::u8;
}

struct MaxPool {
  Val y;  // (N, OH, OW, C)
  // u4 or u8 (N, OH, OW, C): the maximum is at (row, column) = (map / kernel_w, map % kernel_w).
  Val map;
};

// x (N, H, W, C), y like it; OH = (H + top + bottom - kernel_h) / stride_h + 1. Of equal values the
// first, row by row, is the maximum; NaN is larger than any number. At most 256 pixels a window.
MaxPool max_pool(Val x, const MaxPoolAttrs& attrs);

// kernel and stride the same both ways, `pad` on each side.
inline MaxPoolAttrs max_pool_attrs(int64_t kernel, int64_t stride, int64_t pad = 0) {
  return {kernel, kernel, stride, stride, pad, pad, pad, pad};
}

}  // namespace pal
