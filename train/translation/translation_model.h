// The translation model that a configuration describes.
#pragma once
#include "models/translation.h"
#include "train/config/config.h"

namespace pal {

// By model.type, over vocabularies of these sizes (specials included). UsageError when sizes do not
// fit each other.
TranslationModel translation_model(const Config& config, int64_t source_vocab,
                                   int64_t target_vocab);

}  // namespace pal
