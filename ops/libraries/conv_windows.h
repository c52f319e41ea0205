// Gradients of a convolution as products with matrices of windows ("im2col": Chellapilla et al.
// 2006, section 4.1), for kernels so large that oneDNN has only its reference code for them. A few
// rows of taps at a time: one row of taps over the channels lies in one piece in the image.
#pragma once
#include <cstddef>
#include <memory>

#include "ops/libraries/conv_shape.h"

namespace pal {

// One thread, one order: the bits depend on the shape alone. Two threads need an object each.
class ConvWindows {
 public:
  // data_grad or weight_grad, one group; ProgramError otherwise.
  ConvWindows(ConvKind kind, const ConvShape& shape);
  ~ConvWindows();

  int64_t scratch_bytes() const;
  // On that many images in a row, weights plain. data_grad: dy, w -> dx; weight_grad: x, dy -> dw.
  void run(int64_t images, const float* a, const float* b, float* out, std::byte* scratch) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace pal
