// What can be chosen of residual networks.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

namespace pal {

struct ResNetOptions {
  static constexpr const char* kType = "resnet";
  static constexpr const char* kHelp = "residual network; learns to classify images";

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

  // How a configuration names the members: option(key, member, help, what is accepted).
  template <class Option> void declare(Option&& option) {
    option("depth", depth,
           "imagenet: 18, 34, 50, 101, 152, 200, 269; cifar: 6n + 2 (20, 56, 110, 1202), or 6n + 5 "
           "with a projection in every stage (509, 851)",
           {.min = 8, .max = 10'000});
    option("family", family, "imagenet (7x7 and a max pool, four stages) or cifar (3x3, three)");
    option("version", version,
           "v1.5 (a bottleneck's stride in its 3x3) or v2 (norm and relu before each convolution)");
    option("shortcut", shortcut,
           "where a block changes the size: projection (1x1 convolution) or identity (every other "
           "pixel, and zeros: option A)");
    option("width", width, "channels of the first stage; null: 64, of cifar 16",
           {.min = 1, .max = 4096});
    option("zero_init", zero_init,
           "the last norm of each block begins with a gain of zero (of v2: the last convolution), "
           "so that the block begins as its shortcut");
  }
};

constexpr auto names(ResNetOptions::Version) { return std::array{"v1.5", "v2"}; }
constexpr auto names(ResNetOptions::Family) { return std::array{"imagenet", "cifar"}; }
constexpr auto names(ResNetOptions::Shortcut) { return std::array{"projection", "identity"}; }

}  // namespace pal
