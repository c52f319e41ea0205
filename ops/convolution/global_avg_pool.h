// The mean of each channel over an image.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef global_avg_pool_grad_op, global_avg_pool_op;
[[gnu::weak]] extern const Backend global_avg_pool_grad_cuda, global_avg_pool_cuda;

struct ImageSizeAttrs {
  int64_t height = 0, width = 0;
  auto fields() const { return std::tuple{field("height", height), field("width", width)}; }
};

// (N, H, W, C) -> (N, C), floats alike; sums are f32.
Val global_avg_pool(Val x);

}  // namespace pal
