// The oneDNN kernels below the convolutions and their gradients, prepared once and run many times.
// The bits of a result depend neither on the number of threads nor on where the operands lie.
#pragma once
#include <memory>
#include <optional>

#include "core/device.h"
#include "core/spec.h"
#include "ops/libraries/conv_shape.h"

namespace pal {

// Images in another form than f32: how to make a part of them, elements [begin, end).
struct CodedImages {
  TensorSpec spec;
  void (*read)(const TensorSpec& spec, const void* codes, int64_t begin, int64_t end, float* to);
};

class ConvKernel {
 public:
  // `weights`: how they are given, or (weight_grad) wanted; plain where there are groups. `coded`
  // (weight_grad): what x is.
  ConvKernel(const Device& device, ConvKind kind, const ConvShape& shape, const TensorSpec& weights,
             const std::optional<CodedImages>& coded = {});
  ~ConvKernel();

  Layout preferred_weights() const;  // null when plain is as good, and where there are groups
  int64_t workspace() const;
  // forward: x, w -> y (bias); data_grad: dy, w -> dx; weight_grad: x, dy -> dw (sum).
  void run(const void* a, const void* b, void* out, const void* extra, std::byte* workspace,
           const Queue& queue) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace pal
