// Average pooling of images.
#pragma once
#include "core/host_device.h"
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef avg_pool_grad_op, avg_pool_op;
[[gnu::weak]] extern const Backend avg_pool_grad_cuda, avg_pool_cuda;

struct AvgPoolAttrs {
  int64_t kernel_h = 2, kernel_w = 2, stride_h = 2, stride_w = 2;
  // Zeros around the image; negative: so many rows or columns of it left out.
  int64_t top = 0, left = 0, bottom = 0, right = 0;
  bool count_padding = true;  // a window with zeros around the image is still divided by its size
  int64_t height = 0, width = 0;  // of the image: read by avg_pool_grad only
  auto fields() const {
    return std::tuple{field("kernel_h", kernel_h),
                      field("kernel_w", kernel_w),
                      field("stride_h", stride_h),
                      field("stride_w", stride_w),
                      field("top", top),
                      field("left", left),
                      field("bottom", bottom),
                      field("right", right),
                      field("count_padding", count_padding),
                      field("height", height),
                      field("width", width)};
  }
};

// The rows or columns of a window that lie in the image.
struct PoolSpan {
  int64_t begin, end;
  PAL_HD PoolSpan(int64_t corner, int64_t kernel, int64_t extent)
      : begin(corner > 0 ? corner : 0), end(corner + kernel < extent ? corner + kernel : extent) {}
  PAL_HD int64_t size() const { return end > begin ? end - begin : 0; }
};
// What a pixel of a window counts in its mean.
PAL_HD inline float pool_share(const PoolSpan& rows, const PoolSpan& columns,
                               const AvgPoolAttrs& s) {
  const int64_t n = s.count_padding ? s.kernel_h * s.kernel_w : rows.size() * columns.size();
  return n ? 1 / float(n) : 0;
}

// x (N, H, W, C) -> (N, OH, OW, C), floats alike, OH = (H + top + bottom - kernel_h) / stride_h
// + 1. A window of which no pixel is in the image gives 0.
Val avg_pool(Val x, const AvgPoolAttrs& attrs);

// kernel and stride the same both ways, `pad` on each side.
inline AvgPoolAttrs avg_pool_attrs(int64_t kernel, int64_t stride, int64_t pad = 0,
                                   bool count_padding = true) {
  return {kernel, kernel, stride, stride, pad, pad, pad, pad, count_padding};
}

}  // namespace pal
