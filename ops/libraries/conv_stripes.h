// A convolution as matrix products, some lines of output pixels at a time, for devices that have
// the library's products alone: of which shape, and how much room the windows take. Plain
// arithmetic, tested without a GPU; ops/convolution/convolution.cu runs it.
#pragma once
#include "ops/libraries/conv_shape.h"
#include "ops/libraries/matmul_product.h"

namespace pal {

// With windows (groups, pixels, taps c), where taps are the kernel's and pixels a stripe's:
//   forward y = windows w^T,   data_grad dwindows = dy w,   weight_grad dw = dy^T windows.
// Sums are f32: dw, dwindows where they are added up, and y where an f32 bias is added to it.
struct ConvStripes {
  std::array<ConvAxis, 3> axis;  // outermost first; an axis that is missing has extents of 1
  int64_t n = 0, groups = 1;
  int64_t c = 0, o = 0;     // of a group
  int64_t taps = 0;         // of a window, each of c channels
  int64_t row = 0;          // elements of a window as it lies: its own, or more (pad_rows)
  int64_t pixels = 0;       // of y in a line: one place of the outermost axis
  int64_t lines = 0;        // of all images
  int64_t stripe = 0;       // lines at a time: of whole images, or of less than one
  bool in_place = false;    // the image is its windows: 1 x 1, stride 1, nothing around
  DType type = DType::f32;  // of the image, w and y
  bool f32_y = false;       // products give y in f32, stored in 16 bits with its bias
  // Stripes of less than an image end with it: one image's sums of dx are f32, dx itself is not.
  bool by_image = false;

  // Of a stripe's windows; none in place.
  int64_t window_floats() const { return in_place ? 0 : stripe * pixels * groups * row; }
  DType window_type(ConvKind kind) const {
    return kind == ConvKind::data_grad && !in_place ? DType::f32 : type;
  }
  // Of the f32 sums of what is stored in 16 bits: a stripe's y, or an image's dx; of dw where its
  // rows are padded.
  int64_t sum_floats(ConvKind kind) const;
  bool whole_images() const { return stripe % axis[0].out == 0; }
  // Of the stripe that begins at this line, and of a last one that is shorter, 0 if none is.
  int64_t lines_from(int64_t line) const;
  int64_t last_lines() const { return (by_image ? axis[0].out : lines) % stripe; }
  // For weight gradients: windows of one group whose rows are no multiple of eight elements get
  // zeros behind them, as products read 16 bytes at a time; the product's rows of dw as well.
  void pad_rows();
  bool padded() const { return row != taps * c; }
  // The product of so many lines, over groups; with one group it may have a bias.
  ProductShape product(ConvKind kind, int64_t of_lines) const;
};

// As many lines as `most_bytes` of windows, counted as f32, but one at least.
ConvStripes cut_into_stripes(const ConvShape& shape, int64_t most_bytes, DType type = DType::f32);

}  // namespace pal
