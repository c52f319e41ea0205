// From a configuration's model section to the model's own options.
#include "train/image_models.h"

#include "core/error.h"
#include "models/resnet.h"

namespace pal {
namespace {

ResNetOptions resnet_options(const ResNetConfig& c, int64_t channels, int64_t classes) {
  using O = ResNetOptions;
  return {.version = *c.version == "v2" ? O::Version::v2 : O::Version::v1_5,
          .family = *c.family == "cifar" ? O::Family::cifar : O::Family::imagenet,
          .shortcut = *c.shortcut == "identity" ? O::Shortcut::identity : O::Shortcut::projection,
          .depth = *c.depth,
          .channels = channels,
          .classes = classes,
          .width = c.width->value_or(0),
          .zero_init = *c.zero_init};
}

}  // namespace

ImageModel image_model(const Config& config, int64_t classes) {
  if (const auto* c = std::get_if<ResNetConfig>(&config.model)) {
    return resnet_model(resnet_options(*c, *config.images().channels, classes));
  }
  throw ProgramError("[config] the model does not classify images");
}

}  // namespace pal
