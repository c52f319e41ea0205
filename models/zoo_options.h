// What can be chosen of the networks of the zoo.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/rule.h"

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
  // GoogLeNet alone: off, its convolutions have biases in place of batch norm, as published.
  bool norm = true;

  static Rules<ZooOptions> rules();
  // How a configuration names the members: option(key, member, help, what is accepted).
  template <class Option> void declare(Option&& option) {
    option("network", network, "which one, each as its paper or torchvision has it",
           {.choices = image_network_names()});
    option("width", width, "factor of every layer's channels",
           {.min = 0, .max = 16, .above_min = true});
    option("dropout", dropout, "of the classifier; null: the network's own",
           {.min = 0, .max = 1, .below_max = true});
    option("norm", norm,
           "batch norm after every convolution; false, for googlenet alone: biases in its place, "
           "as published");
  }
};

}  // namespace pal
