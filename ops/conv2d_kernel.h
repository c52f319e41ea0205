// The oneDNN kernels below conv2d and its gradients, prepared once and run many times. The bits of
// a result depend neither on the number of threads nor on where the operands lie.
#pragma once
#include <array>
#include <memory>

#include "core/device.h"
#include "ops/conv2d.h"

namespace pal {

enum class ConvKind : uint8_t { forward, data_grad, weight_grad };

struct ConvShape {
  int64_t n, h, w, c, oh, ow, o, kh, kw;
  int64_t stride_h, stride_w, top, left, bottom, right;
  bool bias = false;        // forward: f32 (o)
  bool accumulate = false;  // weight_grad: onto a sum
};

// What the operands and attributes of conv2d, conv2d_data_grad or conv2d_weight_grad say.
ConvShape conv_shape(ConvKind kind, SpecSpan in, const Conv2dAttrs& attrs);

class ConvKernel {
 public:
  // `weights`: how they are given, or (weight_grad) wanted.
  ConvKernel(const Device& device, ConvKind kind, const ConvShape& shape,
             const TensorSpec& weights);
  ~ConvKernel();

  Layout preferred_weights() const;  // null when plain is as good
  int64_t workspace() const;
  // forward: x, w -> y (bias); data_grad: dy, w -> dx; weight_grad: x, dy -> dw (sum).
  void run(const void* a, const void* b, void* out, const void* extra, std::byte* workspace,
           const Queue& queue) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace pal
