// The section "model" of the papers' zoo of image networks.
#pragma once
#include <optional>
#include <string>

#include "train/config/option.h"

namespace pal {

struct ZooConfig : Section {
  Option<std::string> type{*this, "type", "zoo", "the kind of model", {.choices = {"zoo"}}};
  Option<std::string> network{
      *this,
      "network",
      "alexnet",
      "which one, each as its paper or torchvision has it",
      {.choices = {"alexnet", "alexnet_2012", "efficientnet_b0", "googlenet", "inception_v3",
                   "mnasnet", "mobilenet_v2", "nasnet_a_mobile", "nin", "overfeat", "resnet3d_18",
                   "resnext50", "vgg16", "vit_b16"}}};
  Option<double> width{*this,
                       "width",
                       1.0,
                       "factor of every layer's channels",
                       {.min = 0, .max = 16, .above_min = true}};
  Option<std::optional<double>> dropout{*this,
                                        "dropout",
                                        {},
                                        "of the classifier; null: the network's own",
                                        {.min = 0, .max = 1, .below_max = true}};
};

}  // namespace pal
