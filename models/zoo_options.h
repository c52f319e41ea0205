// What can be chosen of the networks of the zoo.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pal {

// Those of image_networks() (models/zoo.h).
std::vector<std::string> image_network_names();

struct ZooOptions {
  static constexpr const char* kType = "zoo";
  static constexpr const char* kHelp = "network of the papers' zoo; learns to classify images";

  std::string network = "alexnet";
  int64_t classes = 1000;
  double width = 1;  // rounded down, one channel at least
  std::optional<float> dropout = {};

  // How a configuration names the members: option(key, member, help, what is accepted).
  template <class Option> void declare(Option&& option) {
    option("network", network, "which one, each as its paper or torchvision has it",
           {.choices = image_network_names()});
    option("width", width, "factor of every layer's channels",
           {.min = 0, .max = 16, .above_min = true});
    option("dropout", dropout, "of the classifier; null: the network's own",
           {.min = 0, .max = 1, .below_max = true});
  }
};

}  // namespace pal
