// The model's own options, of which the configuration knows all but the classes.
#include "train/images/image_models.h"

#include "core/error.h"
#include "models/resnet.h"
#include "models/zoo.h"

namespace pal {
namespace {

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
ImageModel zoo_network(ZooOptions options, const ImageConfig& data, int64_t classes) {
  options.classes = classes;
  const ImageNetwork& network = image_network(options.network);
  ImageModel model = zoo_model(network, options);
  model.channels = *data.channels;
  model.frames = data.frames->value_or(0);
  check_frames(network.name, network.frames, model.frames);
  try {
    Builder b;
    std::vector<MovedStatistic> none;
    Val x = b.input("images", {model.input(1, *data.image_size, *data.image_size)});
    model.logits(b, x, {}, false, none);
  } catch (const ProgramError& error) {
    throw UsageError("data.image_size: " + std::to_string(*data.image_size) + " is too small for " +
                     network.name + ", published for " + std::to_string(network.edge) + ": " +
                     error.what());
  }
  return model;
}

}  // namespace

ImageModel image_model(const Config& config, int64_t classes) {
  if (const auto* o = config.options<ResNetOptions>()) {
    check_frames("resnet", 0, config.images().frames->value_or(0));
    ResNetOptions options = *o;
    options.channels = *config.images().channels, options.classes = classes;
    return resnet_model(options);
  }
  if (const auto* o = config.options<ZooOptions>()) {
    return zoo_network(*o, config.images(), classes);
  }
  throw ProgramError("[config] the model does not classify images");
}

}  // namespace pal
