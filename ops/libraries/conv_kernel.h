// The oneDNN kernels below the convolutions and their gradients, prepared once and run many times.
// The bits of a result depend neither on the number of threads nor on where the operands lie.
#pragma once
#include <array>
#include <memory>

#include "core/device.h"
#include "core/spec.h"

namespace pal {

enum class ConvKind : uint8_t { forward, data_grad, weight_grad };

// One axis of an image or a film: its extent, the kernel's, and how the windows lie on it.
struct ConvAxis {
  int64_t in = 0, kernel = 0, out = 0;
  int64_t stride = 1, before = 0, after = 0;  // zeros around it
  int64_t dilation = 1;                       // from one tap to the next
};

struct ConvShape {
  static constexpr int kMaxAxes = 3;
  int axes = 2;  // spatial, outermost first
  std::array<ConvAxis, kMaxAxes> axis;
  int64_t n = 0, c = 0, o = 0, groups = 1;
  bool bias = false;        // forward: f32 (o)
  bool accumulate = false;  // weight_grad: onto a sum

  int64_t pixels_in() const;  // n excluded
  int64_t pixels_out() const;
  int64_t weights() const;
};

class ConvKernel {
 public:
  // `weights`: how they are given, or (weight_grad) wanted; plain where there are groups.
  ConvKernel(const Device& device, ConvKind kind, const ConvShape& shape,
             const TensorSpec& weights);
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
