// Which options of image classifiers combine.
#include "train/config/image_config.h"

#include <utility>

namespace pal {

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
