// A convolution as matrix products, some lines of output pixels at a time, for devices that have
// the library's products alone: of which shape, and how much room the windows take. Plain
// arithmetic, tested without a GPU; ops/convolution.cu runs it.
#pragma once
#include "ops/conv_kernel.h"
#include "ops/matmul_product.h"

namespace pal {

// With windows (groups, pixels, taps c), where taps are the kernel's and pixels a stripe's:
//   forward y = windows w^T,   data_grad dwindows = dy w,   weight_grad dw = dy^T windows.
struct ConvStripes {
  std::array<ConvAxis, 3> axis;  // outermost first; an axis that is missing has extents of 1
  int64_t n = 0, groups = 1;
  int64_t c = 0, o = 0;   // of a group
  int64_t taps = 0;       // of a window, each of c channels
  int64_t pixels = 0;     // of y in a line: one place of the outermost axis
  int64_t lines = 0;      // of all images
  int64_t stripe = 0;     // lines at a time: of whole images, or of less than one
  bool in_place = false;  // the image is its windows: 1 x 1, stride 1, nothing around

  // Of a stripe's windows; none in place.
  int64_t window_floats() const { return in_place ? 0 : stripe * pixels * groups * taps * c; }
  bool whole_images() const { return stripe % axis[0].out == 0; }
  // The product of so many lines, over groups; with one group it may have a bias.
  ProductShape product(ConvKind kind, int64_t of_lines) const;
};

// As many lines as `most_bytes` of windows, but one at least.
ConvStripes cut_into_stripes(const ConvShape& shape, int64_t most_bytes);

}  // namespace pal
