// What a convolution is, to every library and kernel that computes one.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

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

}  // namespace pal
