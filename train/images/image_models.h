// The image classifier that a configuration describes.
#pragma once
#include "models/image_model.h"
#include "train/config/config.h"

namespace pal {

// By model.type. UsageError when options do not fit each other.
ImageModel image_model(const Config& config, int64_t classes);

}  // namespace pal
