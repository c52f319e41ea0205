// From a configuration's model section to the model's own options.
#include "train/images/image_models.h"

#include "core/error.h"
#include "models/resnet.h"
#include "models/zoo.h"

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

// `published`: 0 where the network sees single images.
void check_frames(const std::string& network, int64_t published, int64_t frames) {
  if (published == 0 && frames > 0) {
    throw UsageError("data.frames: " + network + " sees single images; set it to null");
  }
  if (published > 0 && frames == 0) {
    throw UsageError("data.frames: " + network + " sees films; set it, as published to " +
                     std::to_string(published));
  }
}

// The network, if images of this size are large enough for it.
ImageModel zoo_network(const ZooConfig& c, const ImageConfig& data, int64_t classes) {
  ZooOptions options{.classes = classes, .width = *c.width};
  if (c.dropout->has_value()) options.dropout = float(**c.dropout);
  ImageModel model = zoo_model(image_network(*c.network), options);
  model.channels = *data.channels;
  model.frames = data.frames->value_or(0);
  check_frames(*c.network, image_network(*c.network).frames, model.frames);
  try {
    Builder b;
    std::vector<MovedStatistic> none;
    Val x = b.input("images", {model.input(1, *data.image_size, *data.image_size)});
    model.logits(b, x, {}, false, none);
  } catch (const ProgramError& error) {
    throw UsageError("data.image_size: " + std::to_string(*data.image_size) + " is too small for " +
                     *c.network + ", published for " +
                     std::to_string(image_network(*c.network).edge) + ": " + error.what());
  }
  return model;
}

}  // namespace

ImageModel image_model(const Config& config, int64_t classes) {
  if (const auto* c = std::get_if<ResNetConfig>(&config.model)) {
    check_frames("resnet", 0, config.images().frames->value_or(0));
    return resnet_model(resnet_options(*c, *config.images().channels, classes));
  }
  if (const auto* c = std::get_if<ZooConfig>(&config.model)) {
    return zoo_network(*c, config.images(), classes);
  }
  throw ProgramError("[config] the model does not classify images");
}

}  // namespace pal
