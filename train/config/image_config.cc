// The options of image classifiers, and which of them combine.
#include "train/config/image_config.h"

#include <utility>

namespace pal {

ResNetSection::ResNetSection() {
  option("type", type, "the kind of model", {.choices = {"resnet"}});
  option("depth", model.depth,
         "imagenet: 18, 34, 50, 101, 152, 200, 269; cifar: 6n + 2 (20, 56, 110, 1202), "
         "or 6n + 5 with a projection in every stage (509, 851)",
         {.min = 8, .max = 10'000});
  option("family", model.family,
         "imagenet (7x7 and a max pool, four stages) or cifar (3x3, three)");
  option("version", model.version,
         "v1.5 (a bottleneck's stride in its 3x3) or v2 (norm and relu before "
         "each convolution)");
  option("shortcut", model.shortcut,
         "where a block changes the size: projection (1x1 convolution) or identity (every other "
         "pixel, and zeros: option A)");
  option("width", model.width, "channels of the first stage; null: 64, of cifar 16",
         {.min = 1, .max = 4096});
  option("zero_init", model.zero_init,
         "the last norm of each block begins with a gain of zero (of v2: the last "
         "convolution), so that the block begins as its shortcut");
}

ZooSection::ZooSection() {
  option("type", type, "the kind of model", {.choices = {"zoo"}});
  option("network", network, "which one, each as its paper or torchvision has it",
         {.choices = {"alexnet", "alexnet_2012", "efficientnet_b0", "googlenet", "inception_v3",
                      "mnasnet", "mobilenet_v2", "nasnet_a_mobile", "nin", "overfeat",
                      "resnet3d_18", "resnext50", "vgg16", "vit_b16"}});
  option("width", model.width, "factor of every layer's channels",
         {.min = 0, .max = 16, .above_min = true});
  option("dropout", model.dropout, "of the classifier; null: the network's own",
         {.min = 0, .max = 1, .below_max = true});
}

Rules<ImageConfig> image_rules() {
  return {
      {"data.mean, data.std, data.channels", "1 or 3 channels, and as many numbers",
       [](const ImageConfig& data) -> std::string {
         const auto channels = size_t(*data.channels);
         if (channels == 2) return "data.channels: 2 is neither grey (1) nor colour (3)";
         for (const auto& [name, count] :
              {std::pair("mean", data.mean->size()), std::pair("std", data.std->size())}) {
           if (count != channels) {
             return "data." + std::string(name) + ": has " + std::to_string(count) +
                    " numbers for " + std::to_string(channels) + " channels; give one for each";
           }
         }
         return "";
       }},
      {"data.resize, data.image_size", "resize is at least image_size",
       [](const ImageConfig& data) -> std::string {
         if (!*data.resize || **data.resize >= *data.image_size) return "";
         return "data.resize: " + std::to_string(**data.resize) +
                " is less than "
                "data.image_size " +
                std::to_string(*data.image_size) + "; raise it";
       }},
      {"data.synthetic, data.classes", "made-up images need data.classes",
       [](const ImageConfig& data) -> std::string {
         if (!*data.synthetic || *data.classes) return "";
         return "data.classes: data.synthetic needs it; set it to a number of classes";
       }},
  };
}

}  // namespace pal
