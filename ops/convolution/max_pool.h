// Max pooling of images, which remembers where each maximum was.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef max_pool_grad_op, max_pool_op;
[[gnu::weak]] extern const Backend max_pool_grad_cuda, max_pool_cuda;

struct MaxPoolAttrs {
  int64_t kernel_h = 2, kernel_w = 2, stride_h = 2, stride_w = 2;
  int64_t top = 0, left = 0, bottom = 0, right = 0;  // around the image; never a maximum
  int64_t height = 0, width = 0;                     // of the image: read by max_pool_grad only
  auto fields() const {
    return std::tuple{field("kernel_h", kernel_h), field("kernel_w", kernel_w),
                      field("stride_h", stride_h), field("stride_w", stride_w),
                      field("top", top),           field("left", left),
                      field("bottom", bottom),     field("right", right),
                      field("height", height),     field("width", width)};
  }
};

struct MaxPool {
  Val y;    // (N, OH, OW, C)
  Val map;  // u8 (N, OH, OW, C): the maximum is at (row, column) = (map / kernel_w, map % kernel_w)
};

// x (N, H, W, C), y like it; OH = (H + top + bottom - kernel_h) / stride_h + 1. Of equal values the
// first, row by row, is the maximum; NaN is larger than any number. At most 256 pixels a window.
MaxPool max_pool(Val x, const MaxPoolAttrs& attrs);

// kernel and stride the same both ways, `pad` on each side.
inline MaxPoolAttrs max_pool_attrs(int64_t kernel, int64_t stride, int64_t pad = 0) {
  return {kernel, kernel, stride, stride, pad, pad, pad, pad};
}

}  // namespace pal
