// Residual networks (He et al. 2016, "Deep residual learning" and "Identity mappings").
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/image_model.h"

namespace pal {

struct ResNetOptions {
  // v1_5: convolution, norm, relu; a bottleneck's stride stands in its 3x3 (torchvision's, as
  // against the paper's first 1x1). v2: norm and relu before each convolution, nothing after the
  // sum.
  enum class Version { v1_5, v2 };
  // imagenet: 7x7/2 and a max pool, four stages of 64 channels on; cifar: 3x3, three of 16 on.
  enum class Family { imagenet, cifar };
  // Where a block changes the size: a 1x1 convolution, or every other pixel and zeros (option A).
  enum class Shortcut { projection, identity };

  Version version = Version::v1_5;
  Family family = Family::imagenet;
  Shortcut shortcut = Shortcut::projection;
  int64_t depth = 50;
  int64_t channels = 3, classes = 1000;
  int64_t width = 0;  // channels of the first stage; 0: the family's own
  // Every block begins as its shortcut: the gain of its last norm is 0 (Goyal et al. 2017); of v2,
  // where relu follows that norm and would let nothing back, the last convolution.
  bool zero_init = false;
};

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
