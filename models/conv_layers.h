// Layers that convolutional networks are made of, with their weights. Images are (B, H, W, C).
#pragma once
#include <string>
#include <vector>

#include "models/image_model.h"

namespace pal {

class ConvLayers {
 public:
  // Where `training`, batch norm takes the batch's statistics, and appends to `moved`.
  ConvLayers(Builder& builder, bool training, std::vector<MovedStatistic>& moved, float eps = 1e-5f,
             float momentum = 0.1f)
      : b_(builder), training_(training), moved_(moved), eps_(eps), momentum_(momentum) {}

  // (kernel x kernel) without bias, padded so that stride 1 keeps the size. He et al. 2015: normal,
  // of variance 2 / (kernel^2 outputs), as is usual for residual networks.
  // `zero`: begins with zeros instead.
  Val conv(const std::string& name, Val x, int64_t outputs, int64_t kernel, int64_t stride = 1,
           bool zero = false);
  // Batch norm. `gain`: what its scale begins with.
  Val norm(const std::string& name, Val x, float gain = 1);
  // (B, I) -> (B, outputs); uniform in +-1 / sqrt(I), as PyTorch's Linear.
  Val linear(const std::string& name, Val x, int64_t outputs);

  Builder& builder() { return b_; }

 private:
  Builder& b_;
  bool training_;
  std::vector<MovedStatistic>& moved_;
  float eps_, momentum_;
};

}  // namespace pal
