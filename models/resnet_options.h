// What can be chosen of residual networks.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

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
  std::optional<int64_t> width = {};  // channels of the first stage; null: the family's own
  // Every block begins as its shortcut: the gain of its last norm is 0 (Goyal et al. 2017); of v2,
  // where relu follows that norm and would let nothing back, the last convolution.
  bool zero_init = false;
};

constexpr auto names(ResNetOptions::Version) { return std::array{"v1.5", "v2"}; }
constexpr auto names(ResNetOptions::Family) { return std::array{"imagenet", "cifar"}; }
constexpr auto names(ResNetOptions::Shortcut) { return std::array{"projection", "identity"}; }

}  // namespace pal
