// Residual networks (He et al. 2016, "Deep residual learning" and "Identity mappings").
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/image_model.h"
#include "models/resnet_options.h"

namespace pal {

// What a depth stands for.
struct ResNetStages {
  bool bottleneck = false;      // 1x1, 3x3, 1x1 (four times as wide at its end); else two 3x3
  std::vector<int64_t> blocks;  // of each stage
  // Also the first stage begins with a projection: of CIFAR's 6n + 5, which count three.
  bool projects_first = false;
};
// imagenet: 18, 34, 50, 101, 152, 200, 269. cifar: 6n + 2, or 6n + 5 with a projection in every
// stage (the 509 and 851 of Gist's Figure 16). UsageError("model.depth: ...") for any other.
ResNetStages resnet_stages(const ResNetOptions& options);

// Weights are named as torchvision's: layer1/0/conv1/weight, .., fc/bias.
ImageModel resnet_model(const ResNetOptions& options);

}  // namespace pal
