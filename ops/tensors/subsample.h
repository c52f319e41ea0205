// Every s-th pixel of an image, with channels of zeros added: the shortcut without weights of He et
// al. 2016 (their option A), where a block halves the image and widens it.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef subsample_grad_op, subsample_op;
[[gnu::weak]] extern const Backend subsample_grad_cuda, subsample_cuda;

struct SubsampleAttrs {
  int64_t stride = 1;
  int64_t channels = 0;           // of y, at least those of x; of x, in the gradient
  int64_t height = 0, width = 0;  // of x: read by the gradient only
  auto fields() const {
    return std::tuple{field("stride", stride), field("channels", channels), field("height", height),
                      field("width", width)};
  }
};

// (N, H, W, C) -> (N, ceil(H / stride), ceil(W / stride), channels), floats alike.
Val subsample(Val x, int64_t stride, int64_t channels);

}  // namespace pal
